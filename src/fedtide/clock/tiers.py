"""Devices in tiers, for instance fast, middling and slow phones."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedtide.clock.devices import NUMBERS, Devices
from fedtide.clock.jitter import Jitter, Steady
from fedtide.errors import InvalidInput, floats, require, whole


def tiers(
    clients: int,
    shares: Sequence[float],
    seconds_per_step: Any = 0.0,
    download: Any = np.inf,
    upload: Any = np.inf,
    latency: Any = 0.0,
    jitter: Jitter = Steady(),
    seed: int = 0,
) -> Devices:
    """Devices of a few kinds: a client is of tier i with probability `shares[i]`, and has the numbers of that tier.

    Numbers of clients are the shares of `clients`, rounded; which client is in which tier is drawn from `seed`. Each
    field has one number per tier, or one number for all.

    >>> from fedtide.clock import tiers
    >>> tiers(10, [0.2, 0.8], seconds_per_step=[0.01, 0.1]).seconds_per_step.round(2).tolist().count(0.01)
    2
    """
    clients, seed = whole("tiers.clients", clients, 1), whole("tiers.seed", seed, 0)
    share = floats("tiers.shares", shares, "a share for each tier")
    fine = share.ndim == 1 and bool((share >= 0).all()) and abs(share.sum() - 1) < 1e-6
    require(fine, "tiers.shares", shares, "a share for each tier, with sum 1")
    ends = np.round(np.cumsum(share) * clients).astype(int)
    tier = np.random.default_rng(seed).permutation(np.searchsorted(ends, np.arange(clients), side="right"))

    def of_each(name: str, value: Any) -> np.ndarray:
        values = floats(f"tiers.{name}", value, "a number, or one number for each tier")
        if values.ndim == 0:
            return np.full(clients, values)
        if len(values) != len(share):
            raise InvalidInput(f"length of tiers.{name}", len(values), f"{len(share)}, one number for each tier")
        return values[tier]

    given = (seconds_per_step, download, upload, latency)
    fields = {name: of_each(name, value) for name, value in zip(NUMBERS, given, strict=True)}
    return Devices(**fields, jitter=jitter)
