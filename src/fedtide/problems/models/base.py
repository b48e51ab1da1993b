"""What a model is."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from jax import Array

from fedtide.types import Params

Compute = Literal["float32", "bfloat16"]
"""In what a network's activations and products are: the parameters' own precision, or bfloat16."""


class Model(NamedTuple):
    """`init(key) -> params` and `apply(params, x [b, …]) -> logits [b, classes]`. Any such pair works."""

    init: Callable[[Array], Params]
    apply: Callable[[Params, Array], Array]
