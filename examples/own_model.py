"""Trains models of other libraries, a flax module and an equinox module, on the same federation.

    pip install flax equinox
    python examples/own_model.py

A model is a pair of functions, `init(key) -> params` and `apply(params, x) -> logits`; nothing else is needed.
"""

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

import fedtide
from fedtide.problems import classification, digits


class Network(nn.Module):
    """A small network in flax."""

    @nn.compact
    def __call__(self, x):
        return nn.Dense(10)(nn.relu(nn.Dense(16)(x)))


def of_flax(module: nn.Module, features: int):
    """Flax modules already keep their parameters in a dictionary."""
    return (lambda key: module.init(key, jnp.zeros((1, features)))), module.apply


def of_equinox(build):
    """An equinox module contains its parameters: its arrays are split from everything else, and combined again."""
    _, static = eqx.partition(build(jax.random.key(0)), eqx.is_array)

    def init(key):
        return eqx.filter(build(key), eqx.is_array)

    def apply(params, x):
        return jax.vmap(eqx.combine(params, static))(x)

    return init, apply


def main() -> dict[str, float]:
    """Prints and returns the test accuracy after a few rounds, by library."""
    models = {
        "flax": of_flax(Network(), 64),
        "equinox": of_equinox(lambda key: eqx.nn.MLP(64, 10, 16, depth=1, key=key)),
    }
    data = digits(clients=10, seed=0)
    train, test = (
        [(x[start : start + size], y[start : start + size]) for start, size in zip(np.cumsum(n) - n, n, strict=True)]
        for x, y, n in ((data.x, data.y, data.sizes), (data.test_x, data.test_y, data.test_sizes))
    )
    accuracies = {}
    for name, model in models.items():
        problem = classification(model, train, test)
        result = fedtide.simulate(
            problem, fedtide.availability.Bernoulli([0.5] * 10), fedtide.methods.fedavg(rate=0.3), rounds=30, seeds=1
        )
        accuracies[name] = float(result.rounds["test_accuracy"].drop_nulls()[-1])
        print(f"{name}: test accuracy {accuracies[name]:.3f}")
    return accuracies


if __name__ == "__main__":
    main()
