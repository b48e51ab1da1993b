"""The results of a recommendation, and the `fields` of each in recommendation.json."""

from typing import Any, Literal, NamedTuple

from fedtide.fleet.diagnosis.findings import named
from fedtide.fleet.recommendation.limits import Burden, Constraints
from fedtide.fleet.recommendation.scenarios import Described
from fedtide.fleet.recommendation.verdict import CaseVerdict, Verdict
from fedtide.methods import Facts
from fedtide.statistics import Estimated, Metric

Outcome = Literal[
    "recommended", "equivalent", "not significantly different", "worse", "worse than the best",
    "worse on generated fleets", "excluded", "below the floor", "diverged", "undecided",
]  # fmt: skip


class Ended(NamedTuple):
    """How a method ends under a setting. Differences are to the reference; None where there is none."""

    final: Estimated
    worst: Estimated  # the tenth of the devices that are served worst
    worst_difference: Estimated | None
    difference: Estimated | None


class Candidate(NamedTuple):
    """A method: its chosen settings, its requirements, its results and its verdict."""

    method: str
    name: str
    summary: str
    chosen: dict[str, Any]
    facts: Facts
    burden: Burden
    refused: str | None  # by the constraints: why
    diverged: int
    recorded: Ended
    generated: Ended
    verdict: Outcome

    def ended(self, setting: str) -> Ended:
        return self.recorded if setting == "recorded" else self.generated

    def gap(self, setting: str = "recorded") -> Estimated:
        """The difference to the reference."""
        return self.ended(setting).difference or Estimated()


class Shorter(NamedTuple):
    """The comparison after a share of the rounds, or all."""

    share: float
    rounds: int
    case: CaseVerdict


class Otherwise(NamedTuple):
    """The comparison on another fleet."""

    name: str
    words: str
    case: CaseVerdict


class Relaxed(NamedTuple):
    """The comparison of the methods that could be used without one of the constraints."""

    constraint: str
    freed: list[str]
    case: CaseVerdict
    open: bool  # whether the comparison is inconclusive


class Device(NamedTuple):
    """A device whose accuracy is low."""

    device: str
    kind: str
    availability: float
    correlation: float | None
    accuracy: float
    available: float  # share of the simulated rounds
    included: float  # share of the simulated rounds in which its update had weight


class TrainedProblem(NamedTuple):
    """What was trained. `deployed`: parameters of the model that the constraints refer to."""

    name: str
    stand_in: bool
    parameters: int
    deployed: int


class Findings(NamedTuple):
    """The whole answer."""

    kind: Metric
    rounds: int
    seeds: int
    trials: int
    tuning_seeds: list[int]
    evaluate_every: int
    history: int
    fleet: Described
    problem: TrainedProblem
    constraints: Constraints
    margin: float  # the smallest difference that matters, as a share of 1
    verdict: Verdict
    methods: list[Candidate]
    horizons: list[Shorter]
    scenarios: list[Otherwise]
    relaxed: list[Relaxed]
    served_worst: list[Device]
    edges: dict[str, list[str]]
    warnings: list[str]
    versions: dict[str, str]
    hardware: str
    command: str | None = None
    config: str = ""
    seconds: float = 0.0

    def of(self, method: str | None) -> Candidate:
        return next(row for row in self.methods if row.method == method)

    def least_difference(self, share: float) -> float:
        """A share of 1 in the units of the metric: of accuracies as it is, of objectives relative to the best one."""
        return share if self.kind == "accuracy" else share * abs(self.of(self.verdict.best).recorded.final.mean or 0.0)


def fields(value: Any) -> dict[str, Any] | None:
    """What recommendation.json holds of a result; cases and burdens are merged into what holds them."""
    match value:
        case Facts():
            return {key: getattr(value, key) for key in ("extra_up", "extra_down", "server_memory", "client_memory")}
        case Ended(final, worst, worst_difference, difference):
            tenth = {"worst_decile": worst.mean, "worst_low": worst.low, "worst_high": worst.high}
            return final._asdict() | tenth | {"worst_difference": worst_difference, "difference": difference}
        case Verdict():
            return value._asdict() | {"reference": value.reference}
    data: dict[str, Any] = {}
    for key, one in (named(value) or {}).items():
        data |= one._asdict() if isinstance(one, CaseVerdict | Burden) else {key: one}
    return data or None
