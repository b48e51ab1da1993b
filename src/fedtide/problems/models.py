"""Models: pairs of pure functions."""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from fedtide.errors import require
from fedtide.types import Params


class Model(NamedTuple):
    """`init(key) -> params` and `apply(params, x [b, …]) -> logits [b, classes]`. Any such pair works."""

    init: Callable[[Array], Params]
    apply: Callable[[Params, Array], Array]


@functools.cache  # one object for one size, so that equal models share a compiled program
def softmax_regression(inputs: int | tuple[int, ...], classes: int) -> Model:
    """Linear logits x W + b, started at zero; the cross-entropy is convex.

    `inputs` is the number of features, or the shape of a sample.
    """
    size = inputs if isinstance(inputs, int) else math.prod(inputs)
    require(size >= 1, "inputs", inputs, "1 or more features")
    require(classes >= 2, "classes", classes, "2 or more")

    def init(key: Array) -> Params:
        return {"bias": jnp.zeros(classes), "weight": jnp.zeros((classes, size))}

    def apply(params: Params, x: Array) -> Array:
        # Classes first, samples last: the layout in which many small products are fast on CPU.
        return (params["weight"] @ x.reshape(len(x), -1).T + params["bias"][:, None]).T

    return Model(init, apply)
