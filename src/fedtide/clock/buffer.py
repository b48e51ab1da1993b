"""Asynchronous training with a buffer."""

from typing import ClassVar

from fedtide.clock.barriers import Asynchronous
from fedtide.types import check_whole, derived, part


@part
class Buffer(Asynchronous):
    """The server takes a step after every `k` arrivals; up to `concurrency` clients work at the same time.

    Whenever a place is free, an available client starts from the newest model, uniformly at random among those that
    are idle. A client whose update waits for the server's step starts again after it. `k` = 1 is fully asynchronous.

    Reference: Nguyen et al., "Federated learning with buffered asynchronous aggregation", AISTATS 2022.
    """

    k: int
    concurrency: int

    def __post_init__(self):
        check_whole(self, "barrier", k=1, concurrency=1)

    places: ClassVar[int | None] = derived(lambda self: self.concurrency)
    target: ClassVar[int | None] = derived(lambda self: self.k)
