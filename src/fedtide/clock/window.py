"""Asynchronous training with a server step at fixed times."""

from typing import ClassVar

from jax import Array

from fedtide.clock.barriers import Asynchronous
from fedtide.errors import number
from fedtide.types import check_whole, derived, part


@part
class Window(Asynchronous):
    """The server takes a step every `seconds`, with whatever has arrived since the last one.

    Clients start as with `Buffer`; without `concurrency`, all available clients work at the same time.
    """

    seconds: float
    concurrency: int | None = None

    def __post_init__(self):
        number("barrier.seconds", self.seconds, above=0)
        check_whole(self, "barrier", concurrency=1)

    places: ClassVar[int | None] = derived(lambda self: self.concurrency)
    least: ClassVar[Array | float] = derived(lambda self: self.seconds)
    most: ClassVar[Array | float | None] = derived(lambda self: self.seconds)
