"""Linear models."""

import functools

import jax.numpy as jnp
from jax import Array

from fedtide.kinds import kinds_checked
from fedtide.problems.models.base import Model
from fedtide.problems.models.layers import check_classes, features, scaled
from fedtide.types import Params


@kinds_checked
@functools.cache  # one object for one size, so that equal models share a compiled program
def softmax_regression(inputs: int | tuple[int, ...], classes: int) -> Model:
    """Linear logits x W + b, initially zero; the cross-entropy is convex.

    `inputs` is the number of features, or the shape of a sample.
    """
    size = features(inputs)
    check_classes(classes)

    def init(key: Array) -> Params:
        return {"bias": jnp.zeros(classes), "weight": jnp.zeros((classes, size))}

    def apply(params: Params, x: Array) -> Array:
        # Classes first, samples last: in this layout many small products are fast on CPU.
        x = scaled(x, params["weight"].dtype).reshape(len(x), -1).T
        return (params["weight"] @ x + params["bias"][:, None]).T

    return Model(init, apply)
