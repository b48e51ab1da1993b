"""Rounds that invite more clients than they wait for."""

from typing import ClassVar, Literal

from fedtide.clock.barriers import Late, Rounds
from fedtide.errors import check_one_of, require
from fedtide.types import check_whole, derived, part


@part
class FirstOf(Rounds):
    """A round starts `invited` available clients, uniformly at random, and ends when the first `k` have arrived, or
    when none can arrive any more.

    The policy decides on the clients that arrived, as if only these had been available. Unfinished work is `late`:
    "dropped", or "counted" in the round in which it arrives; it then occupies its place until then.

    Reference: Bonawitz et al., "Towards federated learning at scale: system design", MLSys 2019 (over-selection).
    """

    k: int
    invited: int
    late: Late = "dropped"

    def __post_init__(self):
        check_whole(self, "barrier", k=1, invited=1)
        require(self.invited >= self.k, "barrier.invited", self.invited, f"{self.k} or more, as barrier.k")
        check_one_of("barrier.late", self.late, Late)

    starts: ClassVar[Literal["policy", "places"]] = "places"
    places: ClassVar[int | None] = derived(lambda self: self.invited)
    target: ClassVar[int | None] = derived(lambda self: self.k)
