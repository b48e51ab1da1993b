"""Rounds that wait for every invited client."""

from typing import ClassVar

from jax import Array

from fedtide.clock.barriers import Late, Rounds
from fedtide.errors import check_one_of, number, require
from fedtide.types import derived, part


@part
class WaitForAll(Rounds):
    """A round ends when every invited client has arrived or is lost, or after `limit` seconds.

    Rounds begin at least `every` seconds apart. A round in which no client is invited lasts until the next slot of
    availability. Work that is unfinished at the limit is `late`: "dropped", or "counted" in a later round.
    """

    limit: float | None = None
    every: float = 0.0
    late: Late = "dropped"

    def __post_init__(self):
        if self.limit is not None:
            number("barrier.limit", self.limit, above=0)
        number("barrier.every", self.every, low=0)
        check_one_of("barrier.late", self.late, Late)
        no_effect = self.limit is None and self.late == "counted"
        require(not no_effect, "barrier.late", self.late, '"dropped" without barrier.limit: no client is late')

    least: ClassVar[Array | float] = derived(lambda self: self.every)
    most: ClassVar[Array | float | None] = derived(lambda self: self.limit)
