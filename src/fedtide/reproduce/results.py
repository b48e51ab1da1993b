"""The results of a study, as `reproduce` returns them and results.json stores them.

Verdicts and figures are computed from these alone. A new measure needs its name in `MeasureName`, an entry in
`MEASURES` and a field of `MethodResult`.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, PlainSerializer, PlainValidator

from fedtide.files import write_text
from fedtide.simulation.measures import EvaluationRecord
from fedtide.statistics import Metric, student
from fedtide.tuning.trials import final, final_window

MeasureName = Literal[
    "final", "round", "average", "best", "spread", "worst_decile", "objective", "test_loss", "tail_loss", "classes",
    "included", "availability_error", "correlation_error", "excess_error", "speedup",
]  # fmt: skip


class RunMeasure(NamedTuple):
    """A number for each run, by which methods are compared."""

    words: str  # its name in the rule of a claim
    unit: Literal["points", "times", ""] = "points"  # of differences; points if values are fractions of 1
    column: str = ""  # heading in the table of numbers; "" if it is not shown there
    compute: Callable[[EvaluationRecord], Any] | None = None  # from evaluations [runs, evaluations]
    digits: int = 5  # significant digits that are stored
    highest: bool = True  # whether more is better; if so, a diverged run counts as 0

    @property
    def kind(self) -> Metric:
        """How its values are written."""
        return "accuracy" if self.unit == "points" else "objective"


def _final(field: str) -> Callable[[EvaluationRecord], Any]:
    """The mean of a field of the evaluations over the last fifth of the run."""
    return lambda record: final(getattr(record, field))


def _final_deviation(record: EvaluationRecord) -> Any:
    runs = record.test_accuracy
    return runs[:, -final_window(runs.shape[-1]) :].std(axis=-1)


_RUN = "over the last fifth of the run"

MEASURES: dict[MeasureName, RunMeasure] = {
    "final": RunMeasure(f"test accuracy {_RUN}", "points", "Final accuracy", _final("test_accuracy")),
    "round": RunMeasure("test accuracy after one round"),
    "average": RunMeasure(
        "mean test accuracy over the run", "points", "Time-average accuracy", lambda r: r.test_accuracy.mean(axis=-1)
    ),
    "best": RunMeasure(
        "maximum test accuracy over the run", "points", "Maximum accuracy", lambda r: r.test_accuracy.max(axis=-1)
    ),
    "spread": RunMeasure(
        f"standard deviation of the test accuracy {_RUN}",
        "points",
        "Std. dev. over rounds",
        _final_deviation,
        highest=False,
    ),
    "worst_decile": RunMeasure(
        "accuracy of the worst-served tenth of the clients", "points", "Worst-served tenth", _final("worst_decile")
    ),
    "objective": RunMeasure("training objective", "", "Objective", _final("objective"), highest=False),
    "test_loss": RunMeasure(f"test loss {_RUN}", "", "Test loss", _final("test_loss"), highest=False),
    "tail_loss": RunMeasure(
        "training loss of the worst tenth of the clients",
        "",
        "Loss of the worst tenth",
        _final("tail_loss"),
        highest=False,
    ),
    "classes": RunMeasure("accuracy", compute=lambda r: final(r.class_accuracy, axis=-2), digits=4),
    "included": RunMeasure("inclusion rate (fraction of the available rounds in which a client is invited)"),
    "availability_error": RunMeasure("mean absolute error of the estimated availability", ""),
    "correlation_error": RunMeasure("mean absolute error of the estimated correlation", ""),
    "excess_error": RunMeasure("mean absolute error of the estimated correlation minus that of the availability", ""),
    "speedup": RunMeasure("speed-up in rounds to the other method's final accuracy", "times"),
}


def _array(written: Any) -> np.ndarray:
    return np.array(written, np.float64)  # None is nan


def _plain(values: np.ndarray) -> list[Any]:
    plain = values.astype(object)
    plain[~np.isfinite(values)] = None
    return plain.tolist()


Array = Annotated[np.ndarray, PlainValidator(_array), PlainSerializer(_plain)]
"""An array; in JSON a list, with null for numbers that are not finite."""


class _Stored(BaseModel):
    """A part of results.json. Keys have the order of the fields; fields that were never set are omitted."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class Tuned(_Stored):
    """The settings that tuning chose for a method."""

    settings: dict[str, Any]  # by dotted argument name
    score: float | None  # on validation data
    edges: list[str]  # arguments whose chosen value is the smallest or largest one tried
    trials: int


class MethodResult(_Stored):
    """The results of a method in a case; runs are ordered by data draw, then by seed."""

    label: str
    written: dict[str, Any]  # its table in the study
    tuned: Tuned | None  # None if it runs as written
    diverged: list[bool]
    objective_curve: Array | None = None  # [points], mean over runs
    objective: Array | None = None
    test_loss_curve: Array | None = None  # [points], mean over runs
    test_loss: Array | None = None
    tail_loss: Array | None = None
    curve: Array | None = None  # test accuracy, [runs, points]
    final: Array | None = None
    average: Array | None = None
    best: Array | None = None
    spread: Array | None = None
    worst_decile: Array | None = None
    classes: Array | None = None  # [runs, classes]
    classes_curve: Array | None = None  # [points, classes], mean over runs

    def values(self, name: MeasureName | Literal["curve"]) -> np.ndarray | None:
        """A measure (or the accuracy curve) of each run; None if it was not measured.

        A diverged run counts as 0 % accuracy; its standard deviation and losses are nan.
        """
        values: np.ndarray | None = getattr(self, name)
        if values is None or not (np.isfinite(values).any() or all(self.diverged)):
            return None
        if name != "curve" and not MEASURES[name].highest:
            return values
        diverged = np.array(self.diverged).reshape(-1, *(1,) * (values.ndim - 1))
        return np.where(diverged, np.nan_to_num(values), values)


class Invited(_Stored):
    """How often a method invites the clients of each kind."""

    invited: Array  # [kinds, times], fraction of the clients of the kind
    share: Array  # [kinds, runs], fraction of the available rounds in which a client is invited; nan if there are none
    weight: Array | None = None  # [kinds, runs], mean over clients of (1/T) Σ_t q_k, in units of α_k


class Inclusion(_Stored):
    """Available and invited clients over time, by kind; means over runs."""

    kinds: list[str]
    rounds: list[int]  # the first round of each time bin
    methods: dict[str, Invited]
    present: Array  # [kinds, times], fraction of the clients of the kind that are available


class Activity(_Stored):
    """Each client in each round, on the first data draw and seed."""

    clients: list[str]  # the kind of each client
    methods: dict[str, list[str]]  # for each client a string of rounds: 0 unavailable, 1 available only, 2 invited


class Estimates(_Stored):
    """The mean absolute errors of an estimator over all clients after the observed rounds, for each run."""

    availability: Array
    correlation: Array


class Regions(_Stored):
    """Predictions of the final models over the plane of the samples, on the first data draw and seed."""

    low: Array  # lower left corner of the plane
    high: Array  # upper right corner
    answers: dict[str, list[str]]  # by method: a string per row of a grid, whose digits are classes
    points: Array  # [samples, 2], some of the training samples
    classes: list[int]  # of those samples


class ProblemSize(_Stored):
    """The problem of a case on its first data draw."""

    name: str
    data: str | None
    clients: int
    samples: int
    parameters: int


class Level(NamedTuple):
    """A mean and its 95 % interval (Student's t), which is None for a single value."""

    mean: float
    low: float | None
    high: float | None

    @property
    def ends(self) -> tuple[float, float]:
        return (self.mean, self.mean) if self.low is None or self.high is None else (self.low, self.high)


def level(values: np.ndarray) -> Level | None:
    """The mean of independent values and its interval; None if no value is finite."""
    mean, low, high = student(values)
    return None if mean is None else Level(mean, low, high)


class CaseResult(_Stored):
    """The results of a case: a panel of a figure, or a point on its horizontal axis."""

    label: str
    value: float | None  # position on the horizontal axis
    problem: ProblemSize
    availability: dict[str, Any]  # as configured
    local: dict[str, Any]  # as configured
    seeds: int  # per data draw
    draw: list[int]  # data draw of each run
    rounds: list[int]  # of the points of each curve
    methods: list[MethodResult]
    inclusion: Inclusion | None = None
    activity: Activity | None = None
    estimates: Estimates | None = None
    regions: Regions | None = None
    seconds: float

    def method(self, label: str) -> MethodResult:
        return next(method for method in self.methods if method.label == label)

    def replicas(self, values: np.ndarray) -> np.ndarray:
        """Independent values from values [runs, …]: the mean of each data draw, or the seeds of a single draw.

        Seeds on the same data draw share its data, so with several draws they are not independent.
        """
        draws = np.unique(self.draw)
        return values if len(draws) < 2 else np.array([values[np.equal(self.draw, d)].mean(axis=0) for d in draws])

    def level(self, method: MethodResult, name: MeasureName) -> Level | None:
        """The mean of a measure over replicas; None if it was not measured."""
        values = method.values(name)
        return None if values is None else level(self.replicas(values))

    def gap(self, method: MethodResult, other: MethodResult, name: MeasureName) -> Level | None:
        """The mean paired difference, method − other; None if either was not measured."""
        own, theirs = method.values(name), other.values(name)
        return None if own is None or theirs is None else level(self.replicas(own - theirs))


class Results(_Stored):
    """The results of a study at a scale."""

    name: str
    scale: str
    note: str  # how the scale differs from the publication
    draws: int
    cases: list[CaseResult]
    seconds: float
    hardware: str
    versions: dict[str, str]
    command: str = ""

    @property
    def measure(self) -> Literal["final", "objective"]:
        """By what figures compare methods: final accuracy if there is a test set, otherwise the objective."""
        tested = any(method.values("final") is not None for case in self.cases for method in case.methods)
        return "final" if tested else "objective"

    @property
    def metric(self) -> Metric:
        return MEASURES[self.measure].kind

    def write(self, path: str | os.PathLike[str], **style: Any) -> Path:
        """Writes a results.json atomically; `style` are options of `json.dumps`."""
        return write_text(path, json.dumps(self.model_dump(exclude_unset=True), ensure_ascii=False, **style) + "\n")


def read(path: Path) -> Results:
    """Reads a results.json."""
    return Results.model_validate_json(path.read_text("utf-8"))
