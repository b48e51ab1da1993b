"""Time in seconds: how fast devices are, when clients leave, and when the server takes a step."""

from fedtide.clock.barriers import Barrier
from fedtide.clock.buffer import Buffer
from fedtide.clock.clock import Clock
from fedtide.clock.deadline import Deadline
from fedtide.clock.devices import Devices
from fedtide.clock.first_of import FirstOf
from fedtide.clock.jitter import Exponential, Jitter, Lognormal, Steady
from fedtide.clock.table import device_table
from fedtide.clock.tiers import tiers
from fedtide.clock.wait_for_all import WaitForAll
from fedtide.clock.window import Window

__all__ = [
    "Barrier",
    "Buffer",
    "Clock",
    "Deadline",
    "Devices",
    "Exponential",
    "FirstOf",
    "Jitter",
    "Lognormal",
    "Steady",
    "WaitForAll",
    "Window",
    "device_table",
    "tiers",
]
