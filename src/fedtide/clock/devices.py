"""The speed of each client's device."""

from typing import Any

import numpy as np
from jax import Array

from fedtide.clock.jitter import Jitter, Steady
from fedtide.errors import check_kind, check_one_each, floats, require, require_each
from fedtide.types import part

Numbers = Array | Any
"""A number for all clients, or one for each."""


@part
class Devices:
    """A task takes f · (`latency` + bytes down / `download` + `seconds_per_step` · steps + bytes up / `upload`).

    Times are in seconds and rates in bytes per second, which may be infinite. f is drawn for each task by `jitter`.
    Every other field is a number, or has one number per client. `tiers` and `device_table` build devices from shares
    and from a file.
    """

    seconds_per_step: Numbers = 0.0
    download: Numbers = np.inf
    upload: Numbers = np.inf
    latency: Numbers = 0.0
    jitter: Jitter = Steady()

    def __post_init__(self):
        check_kind("devices.jitter", self.jitter, "jitter")
        lengths: dict[str, int] = {}
        for name in NUMBERS:
            values = floats(f"devices.{name}", getattr(self, name), "a number, or one number for each client")
            require(values.ndim <= 1, f"devices.{name}", values.shape, "a number, or one number for each client")
            rate = name in ("download", "upload")
            fine = values > 0 if rate else (values >= 0) & np.isfinite(values)
            allowed = "positive, in bytes per second" if rate else "finite, 0 or more seconds"
            if values.ndim:
                require_each(fine, f"devices.{name}", values, allowed)
                lengths[name] = len(values)
                first = next(iter(lengths))
                wanted = f"{lengths[first]}, as devices.{first}"
                require(len(values) == lengths[first], f"length of devices.{name}", len(values), wanted)
            else:
                require(bool(fine), f"devices.{name}", values.item(), allowed)
            object.__setattr__(self, name, values)

    def fit(self, clients: int) -> "Devices":
        """These devices, with one number per client in every field."""
        for name in NUMBERS:
            values = np.asarray(getattr(self, name))
            if values.ndim:
                check_one_each(f"devices.{name}", values, clients)
        return Devices(*(np.broadcast_to(getattr(self, name), clients) for name in NUMBERS), jitter=self.jitter)

    def seconds(self, steps: Array | int, down: float, up: float) -> Array:
        """The duration [N] of a task with so many steps and bytes, without jitter."""
        return self.latency + down / self.download + self.seconds_per_step * steps + up / self.upload


NUMBERS = ("seconds_per_step", "download", "upload", "latency")
