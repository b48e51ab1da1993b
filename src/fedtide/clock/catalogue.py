"""Parts of a clock by their names in configurations."""

from collections.abc import Callable
from typing import Any

from fedtide.clock.buffer import Buffer
from fedtide.clock.deadline import Deadline
from fedtide.clock.devices import Devices
from fedtide.clock.first_of import FirstOf
from fedtide.clock.jitter import Exponential, Lognormal, Steady
from fedtide.clock.table import device_table
from fedtide.clock.tiers import tiers
from fedtide.clock.wait_for_all import WaitForAll
from fedtide.clock.window import Window

DEVICES: dict[str, Callable[..., Any]] = {"devices": Devices, "tiers": tiers, "device_table": device_table}
BARRIERS: dict[str, Callable[..., Any]] = {
    "wait_for_all": WaitForAll,
    "deadline": Deadline,
    "first_of": FirstOf,
    "buffer": Buffer,
    "window": Window,
}
JITTERS: dict[str, Callable[..., Any]] = {"steady": Steady, "lognormal": Lognormal, "exponential": Exponential}
