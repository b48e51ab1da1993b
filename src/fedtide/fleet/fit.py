"""From rounds to a model of the fleet."""

from typing import Any

import numpy as np
import polars as pl
from scipy.stats import hypergeom

from fedtide.errors import require
from fedtide.fleet.chain import Posterior, posterior
from fedtide.fleet.clusters import together
from fedtide.fleet.counts import Counts, count
from fedtide.fleet.habits import HIGHEST, Simulate, clock_without, habits, own_days
from fedtide.fleet.lengths import laws_of, lengths
from fedtide.fleet.log import Account
from fedtide.fleet.model import FleetModel, Habits, Lengths, Profile
from fedtide.fleet.population import MOST, population
from fedtide.fleet.profile import profile
from fedtide.fleet.simulable import alternating
from fedtide.fleet.slots import DAY, Slots
from fedtide.fleet.spread import Seen, spread_out
from fedtide.fleet.together import pair_correlation
from fedtide.fleet.waves import HABIT

PAIRS = ("off_off", "off_on", "on_off", "on_on")
_NEGATIVE = 0.01  # one-sided level at which a correlation counts as negative


def fit(slots: Slots, *, source: str = "", account: Account | None = None, seed: int = 0) -> FleetModel:
    """Each device's π and λ with 95 % intervals, the fleet's distribution, its clock, and who moves together.

    Devices are two-state chains whose π and relaxation time τ come from the fleet's distribution, which is fitted
    first (`population`); what is believed of a device is then its posterior (`chain`): few observations stay near the
    fleet, many speak for themselves. λ = exp(−Δ/τ) for rounds of Δ. For generators: devices as different as the
    fleet's are (`spread_out`), days of their own where the record shows them (`habits`), and the lengths of stays and
    absences where they are not a chain's (`lengths`).
    """
    require(slots.state.ndim == 2 and slots.state.size > 0, "slots", slots.state.shape, "rounds × devices, one or more")
    require(bool(slots.observed.any()), "slots", "no observed round", "observed in some round of some device")
    counts = count(slots.state)
    hours = slots.round_seconds / 3600
    fleet = population(counts.pairs, hours, seed)
    believed = posterior(counts.pairs, fleet.prior, hours, fleet.others)
    clock, notes = profile(slots)
    groups = together(slots, believed.availability, seed)
    raw, negative = _raw_correlation(counts)
    changes = counts.consecutive()
    wide = spread_out(
        believed.availability, believed.availability_se, believed.correlation, believed.correlation_se,
        Seen(counts.observed, counts.here, changes.sum(0), int(changes[1:3].sum())), hours,
    )  # fmt: skip
    own, habit, clock, runs = _generator(slots, clock, wide, seed)
    if own and own.sigma >= HIGHEST:
        notes = (*notes, f"devices' own days differ by σ = {HIGHEST:g} or more: the most that is fitted")
    seen = int((counts.observed > 0).sum())
    if seen > MOST:
        notes = (*notes, f"the fleet's distribution was fitted on {MOST} of {seen} devices, drawn at random")
    return FleetModel(
        source=source or (account.source if account else ""),
        devices=_table(slots, counts, believed, raw, groups.membership, wide, habit),
        record=slots.state,
        round_seconds=slots.round_seconds,
        start=slots.start,
        zone=slots.zone,
        distribution=fleet.distribution._replace(negative=negative),
        profile=clock,
        clusters=groups.clusters,
        pair_correlation=groups.pair_correlation,
        account=_plain(account, notes),
        pair_correlation_with_clock=pair_correlation(slots),
        stays=runs[0] if runs else None,
        absences=runs[1] if runs else None,
        habits=own,
    )


def _generator(
    slots: Slots, clock: Profile, wide: tuple[np.ndarray, np.ndarray], seed: int
) -> tuple[Habits | None, np.ndarray | None, Profile, tuple[Lengths, Lengths] | None]:
    """Habits and each device's own day, the clock beside them, and the lengths of stays and absences.

    Whether days differ is asked of chains, then again of fleets without habits that have runs of the record's lengths,
    which recur the more by themselves the longer they are; how far, of chains and then of fleets with habits and runs.
    """
    found = habits(slots, clock, *wide, seed)
    if found is None:
        return None, None, clock, lengths(slots, clock, *wide, seed)
    own, recurring = found
    plain = lengths(slots, clock, *wide, seed)
    if plain and recurring.is_chance(_with(plain)):
        return None, None, clock, plain

    def around(sigma: float):
        """Each device's day, the clock beside it, and the lengths of runs."""
        habit = own_days(slots, clock, *wide, sigma, seed)
        beside = clock_without(slots, clock, wide[0], habit)
        return habit, beside, lengths(slots, beside, *wide, seed, habit)

    habit, beside, runs = around(own.sigma)
    if runs:
        own = recurring.sigma(_with(runs), own.sigma)
        if own is None:  # such runs recur as much without
            return None, None, clock, plain
        habit, beside, runs = around(own.sigma)
    return own, habit, beside, runs


def _with(runs: tuple[Lengths, Lengths]) -> Simulate:
    """Simulates fleets with stays and absences of these lengths."""
    return lambda fleet, random: alternating(fleet, laws_of(fleet, *runs), random)


def _table(
    slots: Slots, counts: Counts, believed: Posterior, raw: np.ndarray, membership: np.ndarray,
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
        "raw_correlation": raw,
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


def _kinds(counts: Counts, round_seconds: int) -> np.ndarray:
    brief = (counts.observed * round_seconds < DAY) | (counts.observed < 20)
    never, always = counts.here == 0, counts.here == counts.observed
    seldom = (counts.visits < 3) & (counts.here < 0.02 * counts.observed)
    return np.select([brief, never, always, seldom], ["brief", "never", "always", "seldom"], "regular")


def _raw_correlation(counts: Counts) -> tuple[np.ndarray, int]:
    """P(on | on) − P(on | off) as counted, nan where undefined, and how many are negative beyond chance.

    Given its margins the number of on→on pairs of uncorrelated rounds is hypergeometric (Fisher's exact test).
    """
    off_off, off_on, on_off, on_on = counts.consecutive()
    from_on, from_off = on_off + on_on, off_off + off_on
    defined = (from_on > 0) & (from_off > 0)
    raw = on_on / np.maximum(from_on, 1) - off_on / np.maximum(from_off, 1)
    chance = hypergeom.cdf(on_on, from_on + from_off, on_on + off_on, from_on)
    return np.where(defined, raw, np.nan), int((defined & (raw < 0) & (chance < _NEGATIVE)).sum())


def _plain(account: Account | None, notes: tuple[str, ...]) -> dict[str, Any]:
    """The account of the reading as plain data."""
    written: dict[str, Any] = {"rows": 0, "used": 0, "form": "", "issues": [], "notes": list(notes)}
    if account is not None:
        issues = [{**issue._asdict(), "examples": list(issue.examples)} for issue in account.issues]
        written |= {"rows": account.rows, "used": account.used, "form": account.form, "issues": issues}
        written["notes"] = [*account.notes, *notes]
    return written
