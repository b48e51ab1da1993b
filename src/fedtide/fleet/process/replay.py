"""The record of a fitted fleet as an availability process; unobserved entries are drawn given the observed ones."""

from pathlib import Path

import numpy as np

from fedtide.availability.base import count_clients
from fedtide.availability.trace import Trace
from fedtide.errors import require, whole
from fedtide.fleet.model import FleetModel
from fedtide.fleet.process.simulable import simulable
from fedtide.fleet.slots import DAY, HERE, UNKNOWN


def replay(path: str | Path, clients: int | None = None, population_seed: int = 0) -> Trace:
    """The record of a fitted fleet, replayed from its first round and repeated after its end; see `fleet`.

    Fewer `clients` than devices are drawn without replacement from the observed devices. More are not possible: copies
    of a device would be perfectly correlated, unlike any two devices of the record.
    """
    from fedtide.fleet.storage import load_model  # needs polars, which a simulation does not

    model, seed = load_model(path), whole("population_seed", population_seed, 0, 2**63)
    record = whole_days(filled(model, seed), model.round_seconds)
    clients = count_clients(clients) or len(model.devices)
    if clients != len(model.devices):
        observed = np.flatnonzero(model.devices["observed"].to_numpy() > 0)
        few = f"{len(observed)} or fewer, the devices of the record; without recorded = true, new ones are drawn"
        require(clients <= len(observed), "clients", clients, few)
        random = np.random.default_rng([seed, 0xF1EE7])
        record = record[:, np.sort(random.choice(observed, clients, replace=False))]
    return Trace(record)


def filled(model: FleetModel, seed: int = 0) -> np.ndarray:
    """bool [rounds, devices]: the record, with unobserved entries drawn from the device's chain.

    The marginal π_k(t) follows the shared clock and, if the model has them, the device's own daily waves. Entries are
    drawn in order, given the previous state and the next observed one at distance g, by the chain's likelihood of the
    latter over g rounds: a device that was available before and after a short gap was probably available in it. Run
    lengths in gaps are geometric, even if the model has other lengths of stays and absences. An unobserved device is
    not an unavailable one.
    """
    pi, lam = (model.devices[name].to_numpy() for name in ("availability", "correlation"))
    pi = np.clip(pi, 1e-9, 1 - 1e-9)
    hours = -model.round_seconds / 3600 / np.log(np.clip(lam, 1e-12, 1 - 1e-9))
    fleet = simulable(model.slots, model.profile, pi, hours, model.record, model.habit)
    generator = np.random.default_rng([seed, 0xF177])
    rounds, devices = model.record.shape
    ahead, distance = _ahead(model.record)
    state = np.empty((rounds, devices), bool)
    every, earlier = np.arange(devices), fleet.threshold[:, 0]
    before = generator.random(devices) < earlier
    for t in range(rounds):
        # A kept number, uniform below π_k if the device was available, makes it available if below the new π_k.
        now = fleet.threshold[:, t]
        still = np.minimum(now, earlier) / np.maximum(earlier, 1e-12)
        comes = np.maximum(now - earlier, 0) / np.maximum(1 - earlier, 1e-12)
        available = np.clip(fleet.kept * np.where(before, still, comes) + (1 - fleet.kept) * now, 0, 1)
        earlier = now
        kept = np.where(ahead[t] == UNKNOWN, 0, lam ** distance[t])
        then = fleet.threshold[every, np.minimum(t + distance[t], rounds - 1)]
        settled = np.where(ahead[t] == HERE, then, 1 - then)
        if_available = np.where(ahead[t] == HERE, kept, 0) + (1 - kept) * settled
        if_not = np.where(ahead[t] == HERE, 0, kept) + (1 - kept) * settled
        available = available * if_available / np.maximum(available * if_available + (1 - available) * if_not, 1e-300)
        drawn = generator.random(devices) < available
        before = state[t] = np.where(model.record[t] == UNKNOWN, drawn, model.record[t] == HERE)
    return state


def whole_days(record: np.ndarray, round_seconds: int) -> np.ndarray:
    """The whole days of the record: when the replay starts over, the time of day continues."""
    rounds = len(record) * round_seconds // DAY * DAY // round_seconds
    return record[:rounds] if rounds and DAY % round_seconds == 0 else record


def _ahead(record: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The next observed state after each round (−1 if there is none), and its distance in rounds."""
    ahead, distance = np.full(record.shape, UNKNOWN, np.int8), np.ones(record.shape, np.int32)
    for t in range(len(record) - 2, -1, -1):
        known = record[t + 1] != UNKNOWN
        ahead[t] = np.where(known, record[t + 1], ahead[t + 1])
        distance[t] = np.where(known, 1, distance[t + 1] + 1)
    return ahead, distance
