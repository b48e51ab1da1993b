"""A clock: devices, a barrier, and the passage of time for availability."""

import dataclasses
from typing import Literal

from fedtide.clock.barriers import Barrier
from fedtide.clock.devices import Devices
from fedtide.clock.wait_for_all import WaitForAll
from fedtide.errors import check_kind, check_one_of, number, require
from fedtide.types import part

Leaving = Literal["lost", "paused", "finished offline"]
"""A client that becomes unavailable before it has finished: its work is lost; it stops until it is available again; or
it works on and delivers when it is available again."""


@part
class Clock:
    """Time in seconds. Availability changes every `slot` seconds: one step of the process.

    `leaving` is what happens to the work of a client that becomes unavailable before it has finished: "lost", "paused"
    or "finished offline". Work that ends when a slot ends is finished.
    """

    devices: Devices
    barrier: Barrier = WaitForAll()
    slot: float = 60.0
    leaving: Leaving = "lost"

    def __post_init__(self):
        check_kind("clock.devices", self.devices, "devices")
        check_kind("clock.barrier", self.barrier, "barrier")
        number("clock.slot", self.slot, above=0)
        check_one_of("clock.leaving", self.leaving, Leaving)

    def fit(self, clients: int) -> "Clock":
        """This clock for so many clients."""
        k, allowed = self.barrier.target, f"{clients} or less, the number of clients: it would wait forever"
        require(k is None or k <= clients, "barrier.k", k, allowed)
        return dataclasses.replace(self, devices=self.devices.fit(clients))
