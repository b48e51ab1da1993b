"""Rounds of fixed length."""

from typing import ClassVar

from jax import Array

from fedtide.clock.barriers import Late, Rounds
from fedtide.errors import check_one_of, number
from fedtide.types import derived, part


@part
class Deadline(Rounds):
    """Every round lasts `seconds`; clients that arrive by then count.

    Unfinished work is `late`: "dropped", or "counted" in the round in which it arrives.
    """

    seconds: float
    late: Late = "dropped"

    def __post_init__(self):
        number("barrier.seconds", self.seconds, above=0)
        check_one_of("barrier.late", self.late, Late)

    least: ClassVar[Array | float] = derived(lambda self: self.seconds)
    most: ClassVar[Array | float | None] = derived(lambda self: self.seconds)
