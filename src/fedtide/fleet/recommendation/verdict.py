"""Which method is best, by how much and how certainly: pure functions of the results at the end of the runs."""

import math
from collections.abc import Container, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl

from fedtide.fleet.recommendation.limits import Burden
from fedtide.fleet.recommendation.runs import GENERATED, RECORDED
from fedtide.statistics import Estimated, Metric, student

Confidence = Literal["clear", "level", "disagree", "floor", "none"]
"""clear: one method is best. level: several are comparable, and the simplest of them is recommended. disagree: the
record and generated fleets name different methods. floor: all methods leave the worst-served below the floor. none:
no method finished, or the constraints exclude all."""

MARGIN = 0.005
"""The smallest difference that matters: half a point of accuracy; of objectives, half a percent of the best one."""


class Standing(NamedTuple):
    """The best method under one setting, and those comparable to it: not significantly different, or only slightly."""

    best: str
    level: tuple[str, ...]  # all comparable ones, with the best itself
    close: tuple[str, ...] = ()  # significantly different from the best, but by less than the margin
    inconclusive: tuple[str, ...] = ()  # not significantly different, but the interval extends beyond the margin


class Verdict(NamedTuple):
    """The recommendation."""

    confidence: Confidence
    recommended: str | None
    best: str | None  # highest mean on the record
    level: tuple[str, ...]  # on the record, or on both where they agree
    recorded: Standing | None
    generated: Standing | None
    below_floor: tuple[str, ...]

    @property
    def reference(self) -> str | None:
        """The method that the others are compared with."""
        return self.recommended or self.best

    @property
    def level_on_record(self) -> tuple[str, ...]:
        """The comparable methods on the record."""
        return self.recorded.level if self.recorded else ()


class CaseVerdict(NamedTuple):
    """The best method in another case, its advantage over the reference, and whether the recommendation changes."""

    best: str
    level: tuple[str, ...]
    close: tuple[str, ...]
    inconclusive: dict[str, Estimated]  # their differences to the best
    reaches: Estimated  # the best
    reference: Estimated
    difference: Estimated
    changes: bool
    diverged: int  # runs of the reference


class Ends:
    """Comparisons of methods from the table of `Runs.ends`; `margin` is the smallest difference that matters."""

    def __init__(self, table: pl.DataFrame, kind: Metric, margin: float = MARGIN):
        self.kind: Metric = kind
        self.margin = margin
        self.sign = 1 if kind == "accuracy" else -1
        finished = pl.when(~pl.col("diverged")).then("final")
        table = table.sort("seed", maintain_order=True).with_columns(finished.alias("final"))
        self.methods: list[str] = table.filter(setting=RECORDED)["method"].unique(maintain_order=True).to_list()
        # Seed by seed; nan where a run diverged, or where there is no accuracy.
        self._values: dict[tuple[Any, ...], pl.DataFrame] = table.select(
            "setting", "horizon", "method", pl.col("final", "worst_decile").cast(pl.Float64).fill_null(math.nan)
        ).partition_by("setting", "horizon", "method", as_dict=True)

    def diverged(self, method: str, setting: str = RECORDED) -> int:
        return int(np.isnan(self._of(setting, 1.0, method, "final")).sum())

    def value(self, method: str, setting: str, horizon: float = 1.0, column: str = "final") -> Estimated:
        return student(self._of(setting, horizon, method, column))

    def difference(
        self, method: str, other: str, setting: str, horizon: float = 1.0, column: str = "final"
    ) -> Estimated:
        """Mean of method − other over seeds, paired."""
        return student(self._of(setting, horizon, method, column) - self._of(setting, horizon, other, column))

    def standing(self, among: Sequence[str], setting: str, horizon: float = 1.0) -> Standing | None:
        """The best method by its mean, and those that are comparable to it.

        Comparable is a method that is not significantly different (the 95 % interval of the paired difference includes
        0; a single seed has no interval, so that no difference is significant), or whose difference is significant but
        whose mean is within the margin. The interval of the latter ends before twice its mean, so the loss is small
        whatever the noise; requiring only that the nearer end be small would accept a loss of many points wherever runs
        are noisy. `inconclusive` are those of the first kind whose interval extends beyond the margin: more seeds might
        well show a difference. A method that diverged under a seed is excluded.
        """
        means = {m: self.sign * float(self._of(setting, horizon, m, "final").mean()) for m in among}
        means = {m: mean for m, mean in means.items() if not math.isnan(mean)}
        if not means:
            return None
        best = max(means, key=means.__getitem__)
        different = [m for m in means if m != best and self.difference(m, best, setting, horizon).apart]
        close = tuple(m for m in different if not self.matters(m, best, setting, horizon))
        level = tuple(m for m in means if m not in different or m in close)
        inconclusive = tuple(m for m in level if m != best and self.inconclusive(m, best, setting, horizon))
        return Standing(best, level, close, inconclusive)

    def inconclusive(self, method: str, other: str, setting: str, horizon: float = 1.0) -> bool:
        """Whether either may be better by more than the margin: not significant, yet not equivalent."""
        return self.difference(method, other, setting, horizon).open(self._least(other, setting, horizon))

    def matters(self, method: str, other: str, setting: str, horizon: float = 1.0) -> bool:
        """Whether their mean difference exceeds the margin: of accuracies as it is, else relative to `other`."""
        gap = self.difference(method, other, setting, horizon).mean
        return gap is None or abs(gap) > self._least(other, setting, horizon)

    def gains(self, method: str, other: str, setting: str, horizon: float = 1.0) -> bool:
        """Whether a method is better than another, significantly and by more than the margin."""
        gap = self.difference(method, other, setting, horizon)
        better = gap.mean is not None and self.sign * gap.mean > 0
        return better and gap.apart and self.matters(method, other, setting, horizon)

    def _least(self, other: str, setting: str, horizon: float) -> float:
        unit = 1.0 if self.kind == "accuracy" else abs(self.value(other, setting, horizon).mean or 0.0)
        return self.margin * unit

    def _of(self, setting: str, horizon: float, method: str, column: str) -> np.ndarray:
        return self._values[setting, horizon, method][column].to_numpy()


def decide(ends: Ends, refused: Container[str], burdens: Mapping[str, Burden], floor: float | None = None) -> Verdict:
    """The recommendation among the methods that the constraints allow.

    Of the methods that are comparable to the best one on the record, and also on generated fleets (see
    `Ends.standing`), the simplest: fewest extra messages, then least memory on a client, then on the server, then the
    first.
    """
    allowed = [method for method in ends.methods if method not in refused]
    below: dict[str, float] = {}
    if floor is not None:
        deciles = {method: ends.value(method, RECORDED, column="worst_decile").mean for method in allowed}
        below = {method: decile for method, decile in deciles.items() if decile is not None and decile < floor}
    among = [method for method in allowed if method not in below]
    if not among and below:
        kindest = max(below, key=below.__getitem__)
        return Verdict("floor", None, kindest, (kindest,), None, None, tuple(below))
    recorded, generated = ends.standing(among, RECORDED), ends.standing(among, GENERATED)
    if recorded is None:
        return Verdict("none", None, None, (), None, generated, tuple(below))
    both = tuple(m for m in recorded.level if generated is None or m in generated.level)
    if not both:
        return Verdict("disagree", None, recorded.best, recorded.level, recorded, generated, tuple(below))
    simplest = min(both, key=burdens.__getitem__)  # the first of equal ones
    confidence = "clear" if recorded.level == (simplest,) else "level"
    return Verdict(confidence, simplest, recorded.best, both, recorded, generated, tuple(below))


def against(ends: Ends, among: Sequence[str], reference: str, setting: str, horizon: float = 1.0) -> CaseVerdict | None:
    """The best method under a setting, compared with the reference; None where no method finished."""
    standing = ends.standing(among, setting, horizon)
    if standing is None:
        return None
    return CaseVerdict(
        standing.best,
        standing.level,
        standing.close,
        {m: ends.difference(m, standing.best, setting, horizon) for m in standing.inconclusive},
        ends.value(standing.best, setting, horizon),
        ends.value(reference, setting, horizon),
        ends.difference(standing.best, reference, setting, horizon),
        reference not in standing.level,
        ends.diverged(reference, setting) if horizon == 1.0 else 0,
    )
