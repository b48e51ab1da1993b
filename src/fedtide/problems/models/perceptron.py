"""Multi-layer perceptrons."""

import functools
import itertools
from typing import Any

import jax
from jax import Array
from jax.nn import leaky_relu  # PyTorch's default slope, 0.01

from fedtide.errors import require
from fedtide.kinds import kinds_checked
from fedtide.problems.models.base import Model
from fedtide.problems.models.layers import check_classes, dense, features, scaled, uniform_layer
from fedtide.types import Params


@kinds_checked
@functools.cache
def mlp(inputs: int | tuple[int, ...], classes: int, hidden: tuple[int, ...] = (128, 128)) -> Model:
    """Dense layers with LeakyReLU between them; for 28 × 28 images the 784-128-128-10 of the Fed-CVaR-Avg paper.

    `inputs` is the number of features, or the shape of a sample.
    """
    size = features(inputs)
    check_classes(classes)
    require(all(n >= 1 for n in hidden), "hidden", hidden, "widths of 1 or more")
    widths = (size, *hidden, classes)

    def init(key: Array) -> Params:
        keys = jax.random.split(key, len(widths) - 1)
        return {
            f"dense{i + 1}": uniform_layer(keys[i], (outputs, inputs))
            for i, (inputs, outputs) in enumerate(itertools.pairwise(widths))
        }

    def apply(params: Any, x: Array) -> Array:
        dtype = params["dense1"]["weight"].dtype
        x = scaled(x, dtype).astype(dtype).reshape(len(x), -1).T
        for i in range(len(hidden)):
            x = leaky_relu(dense(params[f"dense{i + 1}"], x))
        return dense(params[f"dense{len(widths) - 1}"], x).T

    return Model(init, apply)
