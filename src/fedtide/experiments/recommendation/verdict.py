"""Who is best, by how much, and how sure that is: pure functions of how runs ended."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl

from fedtide.experiments.recommendation.limits import Burden
from fedtide.experiments.recommendation.runs import GENERATED, HORIZONS, RECORDED
from fedtide.report.statistics import Estimated, Metric, student

Confidence = Literal["clear", "level", "disagree", "floor", "none"]
"""clear: one method ends best. level: several end alike or cannot be told apart, the simplest is taken. disagree: the
record and generated fleets name different methods. floor: all methods leave the worst-served below the floor. none:
nothing finished, or the constraints leave nothing."""

WORTH = 0.005
"""A difference that matters: half a point of accuracy; of objectives, half a percent of the best one."""


class Standing(NamedTuple):
    """Who ends best under one setting, and who may be as good: not told from it, or told but close."""

    best: str
    level: tuple[str, ...]  # with the best itself, the close and the untold
    close: tuple[str, ...] = ()  # told from the best, by less than matters
    untold: tuple[str, ...] = ()  # not told from the best, by an interval that reaches further than matters


class Verdict(NamedTuple):
    """The recommendation, without its words."""

    confidence: Confidence
    recommended: str | None
    best: str | None  # highest mean on the record
    level: tuple[str, ...]  # on the record, or on both where they agree
    recorded: Standing | None
    generated: Standing | None
    below_floor: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        found = {key: list(value) if isinstance(value, tuple) else value for key, value in self._asdict().items()}
        for key in ("recorded", "generated"):
            standing = getattr(self, key)
            found[key] = None if standing is None else {
                name: list(names) if isinstance(names, tuple) else names for name, names in standing._asdict().items()
            }  # fmt: skip
        return found


class Ends:
    """The table of `Runs.ends`, with what is asked of it. `worth`: the least difference that matters."""

    def __init__(self, table: pl.DataFrame, kind: Metric, worth: float = WORTH):
        self.table, self.kind, self.worth = table, kind, worth
        self.sign = 1 if kind == "accuracy" else -1
        self._values: dict[tuple[str, float], dict[str, dict[str, np.ndarray]]] = {}
        for (setting, horizon), part in table.group_by("setting", "horizon", maintain_order=True):
            own = self._values.setdefault((str(setting), float(str(horizon))), {})
            for (method,), rows in part.group_by("method", maintain_order=True):
                rows = rows.sort("seed")
                final = rows["final"].cast(pl.Float64).fill_null(math.nan).to_numpy().copy()
                final[rows["diverged"].to_numpy()] = math.nan
                decile = rows["worst_decile"].cast(pl.Float64).fill_null(math.nan).to_numpy()
                own[str(method)] = {"final": final, "worst_decile": decile}

    @property
    def methods(self) -> list[str]:
        return list(self._values[RECORDED, 1.0])

    def diverged(self, method: str, setting: str = RECORDED) -> int:
        return int(np.isnan(self._of(setting, 1.0, method, "final")).sum())

    def value(self, method: str, setting: str, horizon: float = 1.0, column: str = "final") -> Estimated:
        return student(self._of(setting, horizon, method, column))

    def difference(
        self, method: str, other: str, setting: str, horizon: float = 1.0, column: str = "final"
    ) -> Estimated:
        """Mean of method − other over seeds, paired."""
        values = (self._of(setting, horizon, name, column) for name in (method, other))
        return student(np.subtract(*values))

    def standing(self, among: Sequence[str], setting: str, horizon: float = 1.0) -> Standing | None:
        """The best by its mean, and who is level with it, as far as one can tell.

        That is who cannot be told from the best (the interval of the difference includes 0; one seed has no interval,
        and tells nobody apart) and who is close: told apart, by a mean difference within `worth`. Such an interval ends
        before twice its mean, so the loss is small whatever the noise. Asking only that its nearer end be small would
        call a loss of many points close wherever runs are noisy. `untold` are those of the
        first whose interval reaches beyond `worth`: more seeds might well tell them apart. A method that diverged under
        a seed is not looked at.
        """
        means = {}
        for method in among:
            final = self._of(setting, horizon, method, "final")
            if not np.isnan(final).any():
                means[method] = self.sign * float(final.mean())
        if not means:
            return None
        best = max(means, key=lambda method: means[method])
        told = [m for m in means if m != best and apart(self.difference(m, best, setting, horizon))]
        close = tuple(m for m in told if not self.matters(m, best, setting, horizon))
        level = tuple(m for m in means if m not in told or m in close)
        untold = tuple(m for m in level if m != best and self.untold(m, best, setting, horizon))
        return Standing(best, level, close, untold)

    def untold(self, method: str, other: str, setting: str, horizon: float = 1.0) -> bool:
        """Whether noise leaves open who is better and that it matters: an interval on both sides of 0, beyond `worth`.

        One seed has no interval and leaves everything open.
        """
        gap = self.difference(method, other, setting, horizon)
        if gap.low is None or gap.high is None:
            return True
        return not apart(gap) and max(-gap.low, gap.high) > self._margin(other, setting, horizon)

    def matters(self, method: str, other: str, setting: str, horizon: float = 1.0) -> bool:
        """Whether their mean difference is larger than `worth`: of accuracies as it is, else relative to `other`."""
        gap = self.difference(method, other, setting, horizon).mean
        if gap is None:
            return True
        return abs(gap) > self._margin(other, setting, horizon)

    def gains(self, method: str, other: str, setting: str, horizon: float = 1.0) -> bool:
        """Whether a method is better than another by more than noise, and by enough to matter."""
        gap = self.difference(method, other, setting, horizon)
        better = gap.mean is not None and self.sign * gap.mean > 0
        return better and apart(gap) and self.matters(method, other, setting, horizon)

    def _margin(self, other: str, setting: str, horizon: float) -> float:
        unit = 1.0 if self.kind == "accuracy" else abs(self.value(other, setting, horizon).mean or 0.0)
        return self.worth * unit

    def _of(self, setting: str, horizon: float, method: str, column: str) -> np.ndarray:
        return self._values[setting, horizon][method][column]


def apart(difference: Estimated) -> bool:
    """Whether the interval leaves 0 out."""
    low, high = difference.low, difference.high
    return low is not None and high is not None and not low <= 0 <= high


def decide(
    ends: Ends, refused: Mapping[str, Any], burdens: Mapping[str, Burden], floor: float | None = None
) -> Verdict:
    """The recommendation among the methods that the constraints allow.

    By the final accuracy on the record. Among those level with the best there (see `Ends.standing`), and also on
    generated fleets, the simplest: fewest extra messages, then least memory on a client, then on the server, then the
    first.
    """
    allowed = [method for method in ends.methods if method not in refused]
    below = []
    if floor is not None:
        deciles = {method: ends.value(method, RECORDED, column="worst_decile").mean for method in allowed}
        below = [method for method, decile in deciles.items() if decile is not None and decile < floor]
    among = [method for method in allowed if method not in below]
    if not among and below:
        kindest = max(below, key=lambda m: ends.value(m, RECORDED, column="worst_decile").mean or 0.0)
        return Verdict("floor", None, kindest, (kindest,), None, None, tuple(below))
    here, there = ends.standing(among, RECORDED), ends.standing(among, GENERATED)
    if here is None:
        return Verdict("none", None, None, (), None, there, tuple(below))
    both = here.level if there is None else tuple(m for m in here.level if m in there.level)
    if not both:
        return Verdict("disagree", None, here.best, here.level, here, there, tuple(below))
    order = ends.methods
    simplest = min(both, key=lambda m: (*burdens[m], order.index(m)))
    confidence = "clear" if here.level == (simplest,) else "level"
    return Verdict(confidence, simplest, here.best, both, here, there, tuple(below))


def horizons(ends: Ends, among: Sequence[str], reference: str, rounds: int) -> list[dict[str, Any]]:
    """Who is best on the record after a quarter, half and all of the rounds, against the reference."""
    found = []
    for share in HORIZONS:
        row = against(ends, among, reference, RECORDED, share)
        if row is not None:
            found.append({"share": share, "rounds": max(1, round(share * rounds)), **row})
    return found


def against(
    ends: Ends, among: Sequence[str], reference: str, setting: str, horizon: float = 1.0
) -> dict[str, Any] | None:
    """Who is best under a setting, by how much over the reference, and whether the reference still would do."""
    found = ends.standing(among, setting, horizon)
    if found is None:
        return None
    difference = ends.difference(found.best, reference, setting, horizon)
    lost = ends.diverged(reference, setting) if horizon == 1.0 else 0
    return {
        "best": found.best,
        "level": list(found.level),
        "close": list(found.close),
        "untold": {m: ends.difference(m, found.best, setting, horizon)._asdict() for m in found.untold},
        "reaches": ends.value(found.best, setting, horizon)._asdict(),
        "reference": ends.value(reference, setting, horizon)._asdict(),
        "difference": difference._asdict(),
        "changes": reference not in found.level,
        "diverged": lost,
    }
