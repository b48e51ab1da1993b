"""The type of models."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from jax import Array

from fedtide.types import Params

Compute = Literal["float32", "bfloat16"]
"""The precision of a network's activations and products: that of its parameters, or bfloat16."""


class Model(NamedTuple):
    """`init(key) -> params` and `apply(params, x [b, …]) -> logits [b, classes]`, any such pair of functions."""

    init: Callable[[Array], Params]
    apply: Callable[[Params, Array], Array]
