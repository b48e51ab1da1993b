"""A record without gaps: what was not observed, drawn given what was."""

import numpy as np

from fedtide.fleet.model import FleetModel
from fedtide.fleet.simulable import simulable
from fedtide.fleet.slots import DAY, HERE, UNKNOWN, Slots
from fedtide.fleet.waves import HABIT


def filled(model: FleetModel, seed: int = 0) -> np.ndarray:
    """bool [rounds, devices]: the record, its unobserved entries drawn from the device's chain.

    P(there) = π_k(t) follows the shared clock and, where the model has them, the device's own hours. Entry by entry
    given the state before and the next observed one at distance g, which weighs by the chain's P(next | here) :
    P(next | away) over g rounds: a device that was there on both sides of a short gap was likely there in it. Runs are
    a chain's, also where the model has lengths of stays and absences. Unobserved is not away.
    """
    pi, lam = (model.devices[name].to_numpy() for name in ("availability", "correlation"))
    pi = np.clip(pi, 1e-9, 1 - 1e-9)
    hours = -model.round_seconds / 3600 / np.log(np.clip(lam, 1e-12, 1 - 1e-9))
    slots = Slots(model.record, (), model.round_seconds, model.start, model.zone)
    habit = np.array(model.devices[HABIT].to_list()) if HABIT in model.devices.columns else None
    fleet = simulable(slots, model.profile, pi, hours, model.record, habit)
    generator = np.random.default_rng([seed, 0xF177])
    rounds, devices = model.record.shape
    ahead, distance = _ahead(model.record)
    state = np.empty((rounds, devices), bool)
    every, earlier = np.arange(devices), fleet.threshold[:, 0]
    before = generator.random(devices) < earlier
    for t in range(rounds):
        # Who keeps its number, uniform and below π_k where it was there, is there again if it is below the new π_k.
        now = fleet.threshold[:, t]
        still = np.minimum(now, earlier) / np.maximum(earlier, 1e-12)
        comes = np.maximum(now - earlier, 0) / np.maximum(1 - earlier, 1e-12)
        here = np.clip(fleet.kept * np.where(before, still, comes) + (1 - fleet.kept) * now, 0, 1)
        earlier = now
        kept = np.where(ahead[t] == UNKNOWN, 0, lam ** distance[t])
        then = fleet.threshold[every, np.minimum(t + distance[t], rounds - 1)]
        settled = np.where(ahead[t] == HERE, then, 1 - then)
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
