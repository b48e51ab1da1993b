"""The synthetic classification data of LEAF, with different models and inputs for each client."""

import numpy as np

from fedtide.errors import flag, require, whole
from fedtide.kinds import kinds_checked
from fedtide.problems.classification import Classification, classification
from fedtide.problems.importance import Importance
from fedtide.problems.limits import MOST_CLIENTS, refuse_large
from fedtide.problems.models import softmax_regression

_MEAN = 453  # samples of a client: e⁶ + 50


@kinds_checked
def synthetic_leaf(
    gamma: float = 0.5,
    delta: float = 0.5,
    clients: int = 100,
    seed: int = 0,
    *,
    iid: bool = False,
    ridge: float = 1e-2,
    importance: Importance = "uniform",
    inputs: int = 60,
    classes: int = 10,
    largest: int | None = None,
) -> Classification:
    """Synthetic(γ, δ) of LEAF: 10 classes; each client has its own linear model and inputs, and sizes vary widely.

    For client k: n_k = ⌊lognormal(4, 2)⌋ + 50 samples, x ~ N(v_k, diag(j^−1.2)), y = argmax(W_k x + b_k), where every
    entry of W_k and b_k ~ N(u_k, 1), u_k ~ N(0, γ²), v_k ~ N(B_k, I), B_k ~ N(0, δ²): γ and δ are standard
    deviations. The first 90 % of the samples train, the others test. Sizes vary so much that one client may hold a
    large share of all samples; `largest` caps n_k.

    With `iid`, the switch of the authors' generators, all clients share one model W, b ~ N(0, 1), and the entries of
    v_k equal B_k: with δ = 0 all samples then come from one distribution. Without the switch γ = δ = 0 is not IID.

    As published, u_k adds the same number to every logit, so γ changes no label: clients' models differ by the unit
    variance of W_k and b_k, whatever γ is.

    A client's data depend on the seed and its number only: adding clients, or a cap, does not change the others'
    samples.

    Reference: Caldas et al., "LEAF: a benchmark for federated settings", 2018; Li et al., "Federated optimization in
    heterogeneous networks", MLSys 2020.
    """
    require(0 <= gamma < np.inf, "gamma", gamma, "0 or more")
    require(0 <= delta < np.inf, "delta", delta, "0 or more")
    clients = whole("clients", clients, 1, MOST_CLIENTS)
    require(seed >= 0, "seed", seed, "0 or more")
    flag("iid", iid)
    require(inputs >= 1, "inputs", inputs, "1 or more")
    require(classes >= 2, "classes", classes, "2 or more")
    require(largest is None or largest >= 2, "largest", largest, "2 or more samples, or None")
    refuse_large(clients=clients, inputs=inputs, samples=_MEAN if largest is None else min(_MEAN, largest))
    refuse_large(inputs=inputs, classes=classes)
    shared = _model(np.random.default_rng([seed, 0, 1]), 0.0, inputs, classes) if iid else None  # clients: [seed, k]
    streams = [np.random.default_rng([seed, k]) for k in range(clients)]
    pairs = [_client(rng, gamma, delta, inputs, classes, largest, shared) for rng in streams]
    cuts = [int(0.9 * len(y)) for _, y in pairs]
    return classification(
        softmax_regression(inputs, classes),
        [(x[:cut], y[:cut]) for (x, y), cut in zip(pairs, cuts, strict=True)],
        [(x[cut:], y[cut:]) for (x, y), cut in zip(pairs, cuts, strict=True)],
        ridge=ridge,
        importance=importance,
    )


def _client(
    rng: np.random.Generator,
    gamma: float,
    delta: float,
    inputs: int,
    classes: int,
    largest: int | None,
    shared: tuple[np.ndarray, np.ndarray] | None,
) -> tuple[np.ndarray, np.ndarray]:
    size = int(rng.lognormal(4, 2)) + 50
    size = size if largest is None else min(size, largest)
    model_mean, input_mean = rng.normal(0, gamma), rng.normal(0, delta)
    weight, bias = _model(rng, model_mean, inputs, classes)
    centre = rng.normal(input_mean, 1, inputs)
    if shared is not None:
        (weight, bias), centre = shared, np.full(inputs, input_mean)
    x = rng.normal(centre, np.arange(1.0, inputs + 1) ** -0.6, (size, inputs))  # standard deviations j^−0.6
    return x.astype(np.float32), (x @ weight + bias).argmax(axis=1)


def _model(rng: np.random.Generator, mean: float, inputs: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(mean, 1, (inputs, classes)), rng.normal(mean, 1, classes)
