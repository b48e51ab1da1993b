"""From rounds to a model of the fleet."""

from typing import Any

import numpy as np
import polars as pl
from scipy.stats import hypergeom

from fedtide.errors import require
from fedtide.fleet.chain import Posterior, posterior
from fedtide.fleet.clusters import together
from fedtide.fleet.counts import Counts, count
from fedtide.fleet.lengths import lengths
from fedtide.fleet.log import Account
from fedtide.fleet.model import FleetModel
from fedtide.fleet.population import MOST, population
from fedtide.fleet.profile import profile
from fedtide.fleet.slots import DAY, Slots
from fedtide.fleet.spread import spread_out
from fedtide.fleet.together import pair_correlation

PAIRS = ("off_off", "off_on", "on_off", "on_on")
_NEGATIVE = 0.01  # one-sided level at which a correlation counts as negative


def fit(slots: Slots, *, source: str = "", account: Account | None = None, seed: int = 0) -> FleetModel:
    """Each device's π and λ with 95 % intervals, the fleet's distribution, its clock, and who moves together.

    Devices are two-state chains whose π and relaxation time τ come from the fleet's distribution, which is fitted
    first (`population`); what is believed of a device is then its posterior (`chain`): few observations stay near the
    fleet, many speak for themselves. λ = exp(−Δ/τ) for rounds of Δ. For generators: devices as different as the
    fleet's are (`spread_out`), and the lengths of stays and absences where they are not a chain's (`lengths`).
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
        counts.here > 0, changes.sum(0), int(changes[1:3].sum()), hours,
    )  # fmt: skip
    runs = lengths(slots, clock, *wide, seed)
    seen = int((counts.observed > 0).sum())
    if seen > MOST:
        notes = (*notes, f"the fleet's distribution was fitted on {MOST} of {seen} devices, drawn at random")
    return FleetModel(
        source=source or (account.source if account else ""),
        devices=_table(slots, counts, believed, raw, groups.membership, wide),
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
    )


def _table(
    slots: Slots, counts: Counts, believed: Posterior, raw: np.ndarray, membership: np.ndarray,
    wide: tuple[np.ndarray, np.ndarray],
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
