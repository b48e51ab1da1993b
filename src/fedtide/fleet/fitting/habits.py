"""Habits: hours at which single devices are available day after day, beyond the shared clock."""

from collections.abc import Callable

import numpy as np

from fedtide.fleet.diagnosis.recurrence import products
from fedtide.fleet.model import Habits, Profile
from fedtide.fleet.process.simulable import Simulable, chains, chunks, clock_times, presence, simulable, usable
from fedtide.fleet.process.waves import DECAY, HARMONICS, bent, drawn, waves
from fedtide.fleet.slots import DAY, HERE, Slots

CHAINS = 59  # simulated fleets without habits: an exact test at 1/60
LEAST_DAYS = 3  # of a record
_FIRST = 18 * 3600  # seconds after which the correlation of runs is negligible
_MOST_DAYS = 3  # of lags after that; whole days, so that a constant has no power
_LEAST_PAIRS = 200  # of rounds, behind each lag
_FLEETS, _TRIES = 12, 4  # simulated for each σ, and how many are tried
HIGHEST = 3.0  # σ: the odds of a day's best and worst hours then differ by e^11

Simulate = Callable[[Simulable, np.random.Generator], np.ndarray]


class Recurring:
    """Compares the record of a fleet with simulated fleets that have habits of some σ."""

    def __init__(self, slots: Slots, profile: Profile, pi: np.ndarray, hours: np.ndarray, seed: int = 0):
        self.seed, self._generator = seed, np.random.default_rng([seed, 0xAB17])
        some = usable(slots, pi, self._generator)
        self._of = slots, profile, pi[some], hours[some], slots.state[:, some]
        self._power = _power(*self._of) if len(some) else None
        self.recorded = self._power(self._of[4] == HERE) if self._power else 0.0  # 0 if the record is too short

    def is_chance(self, simulate: Simulate = chains) -> bool:
        """Whether one of 59 fleets without habits recurs at least as much as the record."""
        if not self._power or self.recorded <= 0:
            return True
        # Against the largest of 59: an exact test at 1/60, since the record is one of 60 alike if there are no habits.
        plain = simulable(*self._of)
        found = (self._power(simulate(plain, self._generator).T) for _ in range(CHAINS))
        return self.recorded <= max(found)

    def sigma(self, simulate: Simulate = chains, first: float | None = None) -> Habits | None:
        """The σ with which simulated fleets recur as the record does, and its error; None if those without habits do,
        too.

        The error is that of the record's power and of the simulated ones', given clock, π, τ and runs.
        """
        plain = self._simulated(0.0, simulate).mean()
        pi, wanted = self._of[2], self.recorded - plain
        if wanted <= 0:
            return None
        variance = pi * (1 - pi)
        sigma = first or np.sqrt(wanted * variance.mean() / (0.5 * (DECAY**2).sum() * (variance**2).mean()))
        sigma, error = float(min(sigma, HIGHEST)), 0.0
        # The same random numbers for each σ: differences between tries are those of σ, not of the draws.
        for left in reversed(range(_TRIES + 1)):
            found = self._simulated(sigma, simulate)
            gain = max(found.mean() - plain, 1e-6)
            error = sigma * found.std(ddof=1) * np.sqrt(1 + 2 / _FLEETS) / (2 * gain)  # power goes with σ²
            if left:
                sigma = float(np.clip(sigma * np.sqrt(np.clip(wanted / gain, 0.1, 5)), 0.01, HIGHEST))
        return Habits(sigma, float(error))

    def _simulated(self, sigma: float, simulate: Simulate) -> np.ndarray:
        assert self._power is not None
        found = []
        for i in range(_FLEETS):
            generator = np.random.default_rng([self.seed, i, 0xAB18])
            habit = drawn(sigma, len(self._of[2]), generator)
            found.append(self._power(simulate(simulable(*self._of, habit), generator).T))
        return np.array(found)


def habits(
    slots: Slots, profile: Profile, pi: np.ndarray, hours: np.ndarray, seed: int = 0
) -> tuple[Habits, Recurring] | None:
    """The variation of daily habits; None if it is not significant.

    The log odds of device k vary by Σ_j a_kj cos(2πj clock) + b_kj sin(2πj clock), j = 1 … 4 times a day,
    with a_kj, b_kj ~ N(0, (σ/j)²). σ is such that simulated fleets, with the same clock, relaxation times and missing
    rounds, recur from day to day as much as the record does: the power at these waves of the devices' autocorrelation
    from 18 hours on, clock removed. None if one of 59 fleets without habits reaches the record's, which a fleet
    without habits exceeds with probability 1/60.
    """
    found = Recurring(slots, profile, pi, hours, seed)
    own = None if found.is_chance() else found.sigma()
    return (own, found) if own else None


def _power(
    slots: Slots, profile: Profile, pi: np.ndarray, hours: np.ndarray, state: np.ndarray
) -> Callable[[np.ndarray], float] | None:
    """The statistic of habits, of a record [rounds, n] of these devices; None if the record is too short, or its rounds
    too long, to measure recurrence."""
    day, known = DAY / slots.round_seconds, state >= 0
    first, days = int(np.ceil(_FIRST / slots.round_seconds)), slots.rounds / day
    if days < LEAST_DAYS or day < 2 * HARMONICS + 1:
        return None
    last = first + round(day * min(_MOST_DAYS, max(1, int(days / 2))))
    size = 1 << (slots.rounds + last - 1).bit_length()
    pairs = products(known.astype(np.float32), size, last - 1)
    while pairs[first:last].min() < _LEAST_PAIRS:
        last -= round(day)
        if last <= first:
            return None
    lags = np.arange(last)
    wave = 2 * np.cos(2 * np.pi / day * np.outer(lags, np.arange(1, HARMONICS + 1))).sum(1)
    weight = np.where(lags < first, 0, wave / (last - first)) / np.maximum(pairs[:last], 0.5)
    expected = simulable(slots, profile, pi, hours, state).threshold.T
    # The standard deviation of the state over all devices, so that a small π(1 − π) has little weight.
    scale = float(np.sqrt((pi * (1 - pi)).mean()))

    def power(here: np.ndarray) -> float:
        left = np.where(known, here - expected, 0)
        left = np.where(known, left - left.sum(0) / np.maximum(known.sum(0), 1), 0) / scale
        return float(products(left.astype(np.float32), size, last - 1) @ weight)

    return power


def own_days(
    slots: Slots, profile: Profile, pi: np.ndarray, hours: np.ndarray, sigma: float, seed: int = 0
) -> np.ndarray:
    """[N, 8] a_k1, b_k1, a_k2, … of each device, drawn from its posterior under N(0, (σ/j)²).

    Given the shared clock and a level of its own, by a quadratic approximation of the log likelihood at its maximum.
    Consecutive rounds are correlated: errors are those of a chain, at the frequency of each wave, and no
    smaller than those of independent rounds. They are too small for relaxation times longer than a wave.
    """
    generator = np.random.default_rng([seed, 0xAB19])
    times, place = clock_times(slots, profile)  # rounds at the same time count together
    order, first = np.argsort(place, kind="stable"), np.searchsorted(np.sort(place), np.arange(len(times)))
    design = np.column_stack([np.ones(len(times)), waves(slots.seconds[times])])
    outer = (design[:, :, None] * design[:, None]).reshape(len(times), -1)
    turns = 2 * np.pi * slots.round_seconds / DAY * np.r_[0, np.repeat(np.arange(1, HARMONICS + 1), 2)]
    known = 1 / np.r_[1.0, sigma * DECAY] ** 2  # precision of the prior
    found = []
    for some in chunks(len(pi), slots.rounds):
        state = slots.state[order, some]
        seen, here = (np.add.reduceat(each, first, 0, np.float64).T for each in (state >= 0, state == HERE))
        base = np.clip(presence(slots, profile, pi[some], times), 1e-9, 1 - 1e-9)
        lam = np.exp(-slots.round_seconds / 3600 / hours[some])[:, None]
        # Variances, over those of independent rounds: the spectral density of a chain (of an AR(1)) at each wave.
        longer = np.maximum((1 - lam**2) / (1 - 2 * lam * np.cos(turns) + lam**2), 1)
        value, curve = np.zeros((len(base), len(turns))), np.diag(known)
        for _ in range(8):
            now = bent(base, value @ design.T)
            score = (here - seen * now) @ design / longer - known * value
            curve = ((seen * now * (1 - now)) @ outer).reshape(-1, *2 * turns.shape)
            curve = curve / np.sqrt(longer[:, :, None] * longer[:, None]) + np.diag(known)
            value = value + np.clip(np.linalg.solve(curve, score[:, :, None])[:, :, 0], -1, 1)
        # A draw, not the mode: modes differ less than devices do, and a generator needs the spread of devices.
        root = np.linalg.cholesky(np.linalg.inv(curve))
        found.append(value + (root @ generator.standard_normal((*value.shape, 1)))[:, :, 0])
    return np.concatenate(found)[:, 1:]


def clock_without(slots: Slots, profile: Profile, pi: np.ndarray, habit: np.ndarray) -> Profile:
    """The clock with which the fleet's share by hour stays the same once habits are added.

    Odds that vary from device to device flatten the mean over devices.
    """
    times, _ = clock_times(slots, profile)
    cells, hour = slots.hours[times], profile.hour

    def share(clock: Profile, habit: np.ndarray | None) -> np.ndarray:
        """[times] share of available devices."""
        parts = chunks(len(pi), len(times))
        sums = [presence(slots, clock, pi[p], times, None if habit is None else habit[p]).sum(0) for p in parts]
        return np.sum(sums, axis=0) / len(pi)

    wanted = share(profile, None)
    for _ in range(5):
        now = share(profile._replace(hour=hour), habit)
        missing = np.bincount(cells, wanted - now, 24) / np.maximum(np.bincount(cells, minlength=24), 1)
        hour = np.maximum(hour + missing / max(wanted.mean(), 1e-9), -1)
    return profile._replace(hour=hour)
