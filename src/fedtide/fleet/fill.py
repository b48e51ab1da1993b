"""A record without gaps: what was not observed, drawn given what was."""

import numpy as np

from fedtide.fleet.model import FleetModel
from fedtide.fleet.slots import DAY, HERE, UNKNOWN, Slots


def filled(model: FleetModel, seed: int = 0) -> np.ndarray:
    """bool [rounds, devices]: the record, its unobserved entries drawn from the device's chain and the shared clock.

    Entry by entry given the state before and the next observed one at distance g, which weighs by the chain's
    P(next | here) : P(next | away) over g rounds: a device that was there on both sides of a short gap was likely there
    in it. Unobserved is not away.
    """
    pi = model.devices["availability"].to_numpy()
    lam = model.devices["correlation"].to_numpy()
    slots = Slots(model.record, (), model.round_seconds, model.start, model.zone)
    relative = model.profile.relative(slots.seconds, slots.weekdays)
    most = max(float(relative.max()), 1e-12)
    follow = np.minimum(1, (1 - pi) / np.maximum(pi * most, 1e-12))
    generator = np.random.default_rng([seed, 0xF177])
    rounds, devices = model.record.shape
    ahead, distance = _ahead(model.record)
    state = np.empty((rounds, devices), bool)
    before = generator.random(devices) < pi
    for t in range(rounds):
        here = np.clip(lam * before + (1 - lam) * pi * (1 + follow * relative[t]), 0, 1)
        kept = np.where(ahead[t] == UNKNOWN, 0, lam ** distance[t])
        settled = np.where(ahead[t] == HERE, pi, 1 - pi)
        if_here = np.where(ahead[t] == HERE, kept, 0) + (1 - kept) * settled
        if_away = np.where(ahead[t] == HERE, 0, kept) + (1 - kept) * settled
        here = here * if_here / np.maximum(here * if_here + (1 - here) * if_away, 1e-300)
        drawn = generator.random(devices) < here
        before = state[t] = np.where(model.record[t] == UNKNOWN, drawn, model.record[t] == HERE)
    return state


def whole_days(record: np.ndarray, round_seconds: int) -> np.ndarray:
    """The first rounds, as many whole days as there are: when a replay begins again, the clock fits."""
    rounds = len(record) * round_seconds // DAY * DAY // round_seconds
    return record[:rounds] if rounds and DAY % round_seconds == 0 else record


def _ahead(record: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The next observed state after each round, −1 where there is none, and its distance in rounds."""
    ahead, distance = np.full(record.shape, UNKNOWN, np.int8), np.ones(record.shape, np.int32)
    for t in range(len(record) - 2, -1, -1):
        known = record[t + 1] != UNKNOWN
        ahead[t] = np.where(known, record[t + 1], ahead[t + 1])
        distance[t] = np.where(known, 1, distance[t + 1] + 1)
    return ahead, distance
