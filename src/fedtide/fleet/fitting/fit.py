"""From rounds to a model of the fleet."""

from typing import Any

import numpy as np
import polars as pl
from scipy.special import expit, logit
from scipy.stats import hypergeom

from fedtide.errors import require
from fedtide.fleet.diagnosis.together import pair_correlation
from fedtide.fleet.fitting.chain import Posterior, posterior
from fedtide.fleet.fitting.clusters import together
from fedtide.fleet.fitting.counts import DeviceCounts, count
from fedtide.fleet.fitting.habits import HIGHEST, Simulate, clock_without, habits, own_days
from fedtide.fleet.fitting.lengths import laws_of, lengths
from fedtide.fleet.fitting.population import MOST, population
from fedtide.fleet.fitting.profile import profile
from fedtide.fleet.log import Account
from fedtide.fleet.model import HABIT, FleetModel, Habits, Lengths, Profile
from fedtide.fleet.process.run_lengths import bisection
from fedtide.fleet.process.simulable import alternating
from fedtide.fleet.slots import DAY, Slots
from fedtide.kinds import kinds_checked

PAIRS = ("off_off", "off_on", "on_off", "on_on")
_MOST_STRETCH = 2.0  # largest factor of differences between devices
_LEVEL = 0.01  # one-sided level at which a correlation counts as negative


@kinds_checked
def fit(slots: Slots, *, source: str = "", account: Account | None = None, seed: int = 0) -> FleetModel:
    """Fits each device's π and λ with 95 % intervals, the population's distribution, its clock, and clusters.

    Devices are two-state chains whose π and relaxation time τ come from the population's distribution, which is fitted
    first (`population`); the estimate of a device is then its posterior (`chain`), shrunk towards the population the
    more, the fewer its observations. λ = exp(−Δ/τ) for rounds of Δ. For generators: devices that differ as much as the
    fleet's (`spread_out`), daily habits where they are significant (`habits`), and the lengths of stays and
    absences where they are not a chain's (`lengths`).
    """
    require(slots.state.ndim == 2 and slots.state.size > 0, "slots", slots.state.shape, "rounds × devices, one or more")
    require(bool(slots.observed.any()), "slots", "no observed round", "observed in some round of some device")
    read = account or Account("", "", 0, 0)
    read = read._replace(source=source or read.source)
    counts = count(slots.state)
    hours = slots.round_seconds / 3600
    fleet = population(counts.pairs, hours, seed)
    believed = posterior(counts.pairs, fleet.prior, hours, fleet.others)
    clock, notes = profile(slots)
    groups = together(slots, believed.availability, seed)
    wide = spread_out(
        believed.availability, believed.availability_se, believed.correlation, believed.correlation_se,
        counts, hours,
    )  # fmt: skip
    own, habit, clock, runs = _generator(slots, clock, wide, seed)
    if own and own.sigma >= HIGHEST:
        notes = (*notes, f"Habits have σ = {HIGHEST:g} or more, the largest value that is fitted.")
    seen = int((counts.observed > 0).sum())
    if seen > MOST:
        notes = (*notes, f"The population was fitted on {MOST} of {seen} devices, drawn at random.")
    return FleetModel(
        source=read.source,
        devices=_table(slots, counts, believed, groups.membership, wide, habit),
        record=slots.state,
        round_seconds=slots.round_seconds,
        start=slots.start,
        zone=slots.zone,
        distribution=fleet.distribution._replace(negative=_negative(counts)),
        profile=clock,
        clusters=groups.clusters,
        pair_correlation=groups.pair_correlation,
        account=read._replace(notes=(*read.notes, *notes)),
        pair_correlation_with_clock=pair_correlation(slots),
        stays=runs[0] if runs else None,
        absences=runs[1] if runs else None,
        habits=own,
    )


def stretched(value: np.ndarray, error: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Posterior means vary less than what they estimate: their deviations are scaled by √(1 + mean se² / var).

    The estimates then vary as the truth does (constrained empirical Bayes). Reference: Ghosh, "Constrained Bayes
    estimation with applications", JASA 1992.
    """
    spread = value[which].var() if which.sum() > 1 else 0.0
    if spread < 1e-9:
        return value
    mean = value[which].mean()
    factor = min(float(np.sqrt(1 + (error[which] ** 2).mean() / spread)), _MOST_STRETCH)
    return np.where(which, mean + factor * (value - mean), value)


def spread_out(
    pi: np.ndarray, pi_se: np.ndarray, correlation: np.ndarray, correlation_se: np.ndarray, counts: DeviceCounts,
    round_hours: float,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """π and τ (hours) of each device for a generator: stretched on the scales of logit π and log τ.

    The level of π is such that the fleet is available as often as in the record, that of τ such that it changes
    as often. Devices that were never available are unchanged.
    """
    ever = counts.here > 0
    inner = np.clip(pi, 1e-6, 1 - 1e-6)
    wide = stretched(logit(inner), pi_se / (inner * (1 - inner)), ever)
    wanted = float(counts.here.sum())
    shift = bisection(-0.5, 0.5, lambda x: float((counts.observed * expit(wide + x))[ever].sum()) < wanted)
    wide = np.where(ever, expit(wide + shift), pi)
    lam = np.clip(correlation, 1e-9, 1 - 1e-9)
    rate = -np.log(lam)
    hours = np.exp(stretched(np.log(round_hours / rate), correlation_se / (lam * rate), ever))
    pairs = counts.consecutive()
    changes = pairs[1:3].sum()
    if not changes:
        return wide, hours
    come = pairs.sum(0) * wide * (1 - wide)
    level = bisection(  # larger differences are not due to the level
        np.log(0.8),
        np.log(1.25),
        lambda x: 2 * (come * -np.expm1(-round_hours / (hours * np.exp(x)))).sum() > changes,
    )
    return wide, hours * np.exp(level)


def _generator(
    slots: Slots, clock: Profile, wide: tuple[np.ndarray, np.ndarray], seed: int
) -> tuple[Habits | None, np.ndarray | None, Profile, tuple[Lengths, Lengths] | None]:
    """Habits of the population and of each device, the remaining clock, and the lengths of stays and absences.

    Habits are tested against chains, then against fleets without habits that have runs of the record's lengths,
    since longer runs recur more. σ is fitted with chains, then with fleets that have habits and such runs.
    """
    found = habits(slots, clock, *wide, seed)
    if found is None:
        return None, None, clock, lengths(slots, clock, *wide, seed)
    own, recurring = found
    plain = lengths(slots, clock, *wide, seed)
    if plain and recurring.is_chance(_with(plain)):
        return None, None, clock, plain

    def around(sigma: float):
        """Each device's habits, the remaining clock, and the lengths of runs."""
        habit = own_days(slots, clock, *wide, sigma, seed)
        beside = clock_without(slots, clock, wide[0], habit)
        return habit, beside, lengths(slots, beside, *wide, seed, habit)

    habit, beside, runs = around(own.sigma)
    if runs:
        own = recurring.sigma(_with(runs), own.sigma)
        if own is None:  # such runs recur as much without habits
            return None, None, clock, plain
        habit, beside, runs = around(own.sigma)
    return own, habit, beside, runs


def _with(runs: tuple[Lengths, Lengths]) -> Simulate:
    """Simulates fleets with stays and absences of these lengths."""
    return lambda fleet, random: alternating(fleet, laws_of(fleet, *runs), random)


def _table(
    slots: Slots, counts: DeviceCounts, believed: Posterior, membership: np.ndarray,
    wide: tuple[np.ndarray, np.ndarray], habit: np.ndarray | None,
) -> pl.DataFrame:  # fmt: skip
    found = np.maximum(counts.observed, 1)
    correlation = np.clip(believed.correlation, 1e-12, 1 - 1e-9)
    columns: dict[str, Any] = {
        "device": list(slots.devices),
        "kind": _kinds(counts, slots.round_seconds),
        "observed": counts.observed,
        "here": counts.here,
        "visits": counts.visits,
        **dict(zip(PAIRS, counts.consecutive(), strict=True)),
        "raw_availability": np.where(counts.observed > 0, counts.here / found, np.nan),
        "raw_correlation": counts.correlation(),
        **{name: getattr(believed, name) for name in Posterior._fields[:8]},
        "hours": -slots.round_seconds / 3600 / np.log(correlation),
        **{name: getattr(believed, name) for name in Posterior._fields[8:12]},
        "cluster": membership.astype(np.int32),
        "spread_availability": wide[0],
        "spread_hours": wide[1],
    }
    if habit is not None:
        columns[HABIT] = pl.Series(habit.tolist(), dtype=pl.List(pl.Float64))
    table = pl.DataFrame(columns)
    return table.with_columns(pl.col("raw_availability", "raw_correlation").fill_nan(None))


def _kinds(counts: DeviceCounts, round_seconds: int) -> np.ndarray:
    brief = (counts.observed * round_seconds < DAY) | (counts.observed < 20)
    never, always = counts.here == 0, counts.here == counts.observed
    seldom = (counts.visits < 3) & (counts.here < 0.02 * counts.observed)
    return np.select([brief, never, always, seldom], ["brief", "never", "always", "seldom"], "regular")


def _negative(counts: DeviceCounts) -> int:
    """How many devices have a correlation that is negative beyond chance.

    Given its margins the number of on→on pairs of uncorrelated rounds is hypergeometric (Fisher's exact test).
    """
    # Conditional on the margins π drops out, so that the test is exact for short records. The number is descriptive:
    # of devices without memory 1 % or fewer count, and no allowance is made for how many there are.
    off_off, off_on, on_off, on_on = counts.consecutive()
    chance = hypergeom.cdf(on_on, off_off + off_on + on_off + on_on, on_on + off_on, on_off + on_on)
    return int(((counts.correlation() < 0) & (chance < _LEVEL)).sum())
