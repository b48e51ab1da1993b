"""Studies: a figure or table of a paper as a configuration at three scales, with the claims to be tested.

A study is a TOML file: a configuration (`[problem]`, `[availability]`, `[run]`, `[local]`, `[[methods]]`, `[tune]`) and

    paper = "ca_fed"
    figure = "Fig. 1a"
    title = "Test accuracy over rounds"
    about = "What the paper shows, and how it is reproduced here."
    draws = 10                  # independent data draws, each with its own seeds
    shows = ["curves"]          # the figures

    [[fixed]]                   # methods that are not tuned
    [[cases]]                   # what is varied: a label, a value and changes to the configuration
    [scales.reduced]            # changes to the configuration at this scale
    [[claims]]                  # a claim of the paper, with the statistic and threshold that decide it

The changes of a case are applied before those of the scale.
"""

import functools
from collections import Counter
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from fedtide.data import places
from fedtide.errors import FedtideError, did_you_mean
from fedtide.experiments.config import Config, Positive, Table, Word, from_tables, parsed, read, validated
from fedtide.experiments.place import Place
from fedtide.reproduce.results import MeasureName

ScaleName = Literal["smoke", "reduced", "paper"]
FigureKind = Literal[
    "curves", "ends", "grid", "classes", "inclusion", "weights", "activity", "best", "estimates", "regions", "map"
]

REDUCED = {"mnist": "mnist10k", "fashion_mnist": "fmnist20k", "cifar10": "cifar10_12k"}
"""Data sets that replace others at the reduced scale."""

EMBEDDED = "digits"
"""The data set that replaces all others at the smoke scale."""


class Changes(Table):
    """Changes to the study's configuration: tables are merged, other values are replaced."""

    problem: dict[str, Any] = Field(default={}, description="a table of changes")
    availability: dict[str, Any] = Field(default={}, description="a table of changes")
    run: dict[str, Any] = Field(default={}, description="a table of changes")
    local: dict[str, Any] = Field(default={}, description="a table of changes")
    tune: dict[str, Any] = Field(default={}, description="a table of changes")
    methods: dict[str, dict[str, Any]] = Field(
        default={}, description='a table for each label, or for "all", of method arguments to change'
    )


class Case(Changes):
    """A panel of a figure, or a point on its horizontal axis."""

    label: str = Field(description="a name for tables and figures")
    value: float | None = Field(default=None, description="a number: the position on the horizontal axis")
    coordinates: dict[str, float] = Field(default={}, description="a table of two numbers: the position on a map")
    shared: Word | None = Field(default=None, description="as `shared` of the study, which it replaces")


class AtScale(Changes):
    """How a study is run at one scale."""

    note: str = Field(default="", description="text: how this differs from the publication")
    caveat: str = Field(default="", description="text: a limitation of verdicts at this scale")
    stand_in: str = Field(
        default="",
        description="text: what replaces the published network or data; claims of the paper are then not tested",
    )
    draws: Positive | None = Field(default=None, description="a number of data draws, 1 or more")
    tuning_draws: Positive | None = Field(default=None, description="a number of data draws to tune on, 1 or more")
    cases: tuple[Word, ...] | None = Field(default=None, description="a list of the labels of the cases to run")
    without: tuple[Word, ...] = Field(default=(), description="a list of the labels of methods that are not run")


class Claim(Table):
    """A claim of the paper, with the statistic and the threshold that decide it."""

    says: Word = Field(description="the claim as a sentence")
    published: Word = Field(description="the published numbers")
    source: Literal["paper", "code", "ours"] = Field(
        default="paper",
        description='"paper", "code" (the authors\' repository) or "ours" (our own question)',
    )
    method: Word = Field(description="the label of the method in question")
    measure: MeasureName = Field(
        default="final",
        description='"final", "round", "average", "best", "spread", "worst_decile", "objective", "test_loss", '
        '"tail_loss", "classes", "included", "availability_error", "correlation_error", "excess_error" or "speedup"',
    )
    against: Word | tuple[Word, ...] | None = Field(
        default=None,
        description="the label of a method, or a list of labels; without it the comparison is with `value`",
    )
    value: float = Field(default=0.0, description="a number to compare with instead of a method")
    holds: Literal["above", "below", "within"] = Field(default="above", description='"above", "below" or "within"')
    by: float = Field(default=0.0, description="a number: the threshold (for accuracies in points)")
    size: float | None = Field(
        default=None, description="a number: the published difference; an interval that excludes it is reported"
    )
    round: Positive | None = Field(default=None, description="the round, for the measure `round`")
    cases: tuple[Word, ...] | None = Field(default=None, description="a list of the labels of cases")
    trend: bool = Field(default=False, description="true or false: whether to test the slope over the cases")
    classes: tuple[int, ...] = Field(default=(), description="a list of classes, for the measure `classes`")
    group: Word | tuple[Word, ...] | None = Field(
        default=None, description="a kind of client, or a list of kinds, for the measure `included`"
    )
    against_group: Word | None = Field(default=None, description="a kind of client to compare the group with")

    @property
    def rivals(self) -> tuple[str, ...]:
        """The labels of the methods to compare with."""
        return (self.against,) if isinstance(self.against, str) else self.against or ()

    @property
    def groups(self) -> tuple[str, ...]:
        """The kinds of clients of the claim."""
        return (self.group,) if isinstance(self.group, str) else self.group or ()


_Run = dict[str, Any]


class Study(Table):
    """A figure or table."""

    paper: Word = Field(description="the key of a paper")
    figure: Word = Field(description="text, such as Fig. 1a")
    title: Word = Field(description="text")
    about: Word = Field(description="text: what the paper shows, and how it is reproduced here")
    shows: tuple[FigureKind, ...] = Field(
        default=("curves",),
        description='a list of "curves", "ends", "grid", "classes", "inclusion", "weights", "activity", "best", '
        '"estimates", "regions" or "map"',
    )
    axis: str = Field(default="", description="text: the quantity on the horizontal axis, such as κ̄²")
    best: Word | None = Field(
        default=None,
        description="the argument of [[methods]] or [[fixed]] whose best value is shown over rounds",
    )
    grid: dict[str, Word] = Field(
        default={},
        description="a table with the names of two axes, each with the argument of [[fixed]] that it shows",
    )
    draws: Positive = Field(default=1, description="a number of data draws, 1 or more")
    tuning_draws: Positive = Field(
        default=1, description="a number of data draws on which settings are chosen, other than those of the runs"
    )
    extensions: Annotated[int, Field(ge=0)] = Field(
        default=0, description="how often the lists of [tune.space] are extended if a chosen value is at their end"
    )
    shared: Word | None = Field(
        default=None, description="the label of the tuned method whose chosen settings all tuned methods use"
    )
    inclusion: tuple[Word, ...] = Field(
        default=(), description="a list of the labels of methods whose invitations are recorded"
    )
    problem: _Run = Field(description="a table with the name of a problem and its arguments")
    availability: _Run = Field(description="a table with the name of an availability process and its arguments")
    run: _Run = Field(description="a table with rounds, seeds, evaluate_every and more")
    local: _Run = Field(default={}, description="a table with steps or epochs, and batch")
    tune: _Run | None = Field(default=None, description="a table with trials, seeds, rounds, validation, space")
    methods: tuple[_Run, ...] = Field(
        description="one or more tables [[methods]]: methods that are tuned with the same budget"
    )
    fixed: tuple[_Run, ...] = Field(default=(), description="tables [[fixed]]: methods that are not tuned")
    cases: tuple[Case, ...] = Field(default=(), description="tables [[cases]], each with a label and changes")
    scales: dict[ScaleName, AtScale] = Field(description="tables [scales.smoke], [scales.reduced], [scales.paper]")
    claims: tuple[Claim, ...] = Field(default=(), description="tables [[claims]]")

    def case(self, label: str) -> Case:
        """The case with this label."""
        return next((case for case in self.cases if case.label == label), Case(label=label))

    def cell(self, label: str) -> list[float] | None:
        """The position of a method in the grid, by axis; None if it is not in the grid."""
        for method in self.fixed if self.grid else ():
            if label_of(method) == label and all(name in method for name in self.grid.values()):
                return [float(method[name]) for name in self.grid.values()]
        return None

    @property
    def published(self) -> dict[str, str]:
        """Methods at published settings, with the tuned method of which each is a variant.

        A variant has all settings of the tuned method's table and further ones. A cell of the grid is a variant of the
        tuned method of the same name, unless a claim is about the cell.
        """
        claimed = {label for claim in self.claims for label in (claim.method, *claim.rivals)}
        owners = {}
        for method in self.fixed if self.tune else ():
            label = label_of(method)
            if self.cell(label):
                alike = [m for m in self.methods if m["name"] == method["name"] and label not in claimed]
            else:
                alike = [m for m in self.methods if _settings(m).items() <= _settings(method).items()]
            if alike:
                owners[label] = label_of(max(reversed(alike), key=len))
        return owners

    @property
    def order(self) -> list[str]:
        """Labels in the order of their colours; a variant shares the colour of its tuned method."""
        published = self.published
        return [label for label in map(label_of, (*self.methods, *self.fixed)) if label not in published]

    @property
    def reference(self) -> str:
        """The method that most claims are about; the first method if there are no claims."""
        named = Counter(claim.method for claim in self.claims)
        return named.most_common(1)[0][0] if named else label_of(self.methods[0])

    @property
    def claimed_classes(self) -> list[int]:
        """The classes that claims are about."""
        return sorted({c for claim in self.claims for c in claim.classes})


class Paper(Table):
    """A source of studies."""

    title: Word = Field(description="text")
    authors: str = Field(default="", description="text")
    venue: str = Field(default="", description="text")
    year: int | None = Field(default=None, description="a year")
    about: Word = Field(description="text: what it proposes, and what we know of it")


class CaseConfig(NamedTuple):
    """A case as a configuration that can be built."""

    label: str
    value: float | None
    config: Config
    tuned: int  # number of methods, from the first, that are tuned; the others run as written
    shared: str | None  # the method whose chosen settings all tuned methods use


class StudyPlan(NamedTuple):
    """A study at a scale."""

    name: str
    scale: ScaleName
    study: Study
    draws: int
    panels: list[CaseConfig]


def names() -> list[str]:
    """Names of the packaged studies, in the order of papers and figures."""
    return list(_files())


@functools.cache
def papers() -> dict[str, Paper]:
    """The papers by key, in the order of the documentation."""
    place = Place("papers.toml")
    text = resources.files("fedtide.reproduce").joinpath("papers", "papers.toml").read_text("utf-8")
    return {key: validated(Paper, table, place.key(key)) for key, table in parsed(text, place).items()}


def by_paper() -> dict[str, dict[str, Study]]:
    """The packaged studies by paper and name."""
    studies: dict[str, dict[str, Study]] = {paper: {} for paper in papers()}
    for name in names():
        study = load_study(name)[1]
        studies[study.paper][name] = study
    return studies


def load_study(name: str) -> tuple[str, Study]:
    """Returns (name, study) of a packaged study or of a TOML file."""
    name, study, _ = _read(name)
    return name, study


def plan(name: str, scale: ScaleName, data_dir: Path | None = None) -> StudyPlan:
    """Returns the cases of a study at a scale, each as a configuration."""
    folder = Path(name).parent if name.endswith(".toml") else Path()
    name, study, place = _read(name)
    if scale not in study.scales:
        raise place.error(f"there is no scale '{scale}'; {did_you_mean(scale, study.scales)}")
    changes = study.scales[scale]
    cases = study.cases or (Case(label=""),)  # a single case without a name
    wanted = changes.cases or tuple(case.label for case in cases)
    for label in wanted:
        if label not in {case.label for case in cases}:
            raise place.key("scales").key(scale).error(f"no case is labelled '{label}'")
    _check(study, place)
    panels = [_panel(study, case, scale, place, folder, data_dir) for case in cases if case.label in wanted]
    tuning_draws = changes.tuning_draws or study.tuning_draws
    study = study.model_copy(update={"tuning_draws": tuning_draws})
    return StudyPlan(name, scale, study, changes.draws or study.draws, panels)


def _check(study: Study, place: Place) -> None:
    """Raises errors that would otherwise show up late in a run."""
    methods = [label_of(m) for m in (*study.methods, *study.fixed)]
    cases = [case.label for case in study.cases]
    for kind, labels in (("methods", methods), ("cases", cases)):
        for label in labels:
            if labels.count(label) > 1:
                raise place.key(kind).error(f"label '{label}' is used twice; labels must differ")
    if "seed" in study.problem:
        raise place.key("problem").key("seed").error("must not be set; the seed is the number of the data draw")
    if "map" in study.shows and {len(case.coordinates) for case in study.cases} != {2}:
        raise place.key("cases").error("a map needs two coordinates for every case")
    if "best" in study.shows and study.best is None:
        raise place.key("best").error('missing; shows = ["best"] needs the name of an argument')
    if study.grid and len(study.grid) != 2:
        raise place.key("grid").error("must name two axes, each with an argument")
    shared = {one.shared for one in (study, *study.cases) if one.shared}
    for key, labels in (("inclusion", study.inclusion), ("shared", shared)):
        for label in labels:
            if label not in methods:
                raise place.key(key).error(f"no method is labelled '{label}'; {did_you_mean(label, methods)}")
    for i, claim in enumerate(study.claims):
        at = place.key("claims").item(i)
        for key, labels, known in (
            ("method", (claim.method,), methods),
            ("against", claim.rivals, methods),
            ("cases", claim.cases or (), cases),
        ):
            for label in labels:
                if label not in known:
                    raise at.key(key).error(f"nothing is labelled '{label}'; {did_you_mean(label, known)}")
        if claim.measure == "speedup" and not claim.rivals:
            raise at.key("against").error("missing; a speed-up is relative to another method")
        if (claim.measure == "classes") != bool(claim.classes):
            raise at.key("classes").error('must be given for the measure "classes", and only for it')
        if claim.measure.endswith("_error") and "estimates" not in study.shows:
            raise at.key("measure").error(f"'{claim.measure}': shows must contain \"estimates\"")
        if (claim.measure == "round") != bool(claim.round):
            raise at.key("round").error('must be given for the measure "round", and only for it')
        if (claim.measure == "included") != bool(claim.group):
            raise at.key("group").error('must be given for the measure "included", and only for it')
        if claim.measure == "included" and claim.method not in study.inclusion:
            raise at.key("method").error(
                f"'{claim.method}': must be in inclusion, so that its invitations are recorded"
            )
        if claim.trend and any(c.value is None for c in study.cases if claim.cases is None or c.label in claim.cases):
            raise at.key("trend").error("every case of the claim must have a value")


def _panel(study: Study, case: Case, scale: ScaleName, place: Place, folder: Path, data_dir: Path | None) -> CaseConfig:
    changes = study.scales[scale]
    written: dict[str, Any] = {"title": f"{study.title}{f', {case.label}' if case.label else ''}"}
    for key in ("problem", "availability", "run", "local", "tune"):
        table = functools.reduce(merged, (getattr(study, key) or {}, getattr(case, key), getattr(changes, key)))
        if table:
            written[key] = table
    if study.tune is None:
        written.pop("tune", None)
    data = written["problem"].get("data")
    if data is not None and scale != "paper":
        written["problem"]["data"] = EMBEDDED if scale == "smoke" else REDUCED.get(data, data)
    if data is not None and data_dir is not None:
        written["problem"]["data_dir"] = str(data_dir.resolve())
    file = written["availability"].get("path")
    if file is not None:  # traces are looked up in the data folders
        paths = (folder.path / file for folder in places(data_dir))
        written["availability"]["path"] = str(next((path.resolve() for path in paths if path.is_file()), file))
    lists = [list(_methods(kind, case, changes)) for kind in (study.methods, study.fixed)]
    known = {label_of(m) for m in (*study.methods, *study.fixed)} | {"all"}
    for label in (*case.methods, *changes.methods, *changes.without):
        if label not in known:
            raise place.error(f"no method is labelled '{label}'; {did_you_mean(label, known)}")
    written["methods"] = [*lists[0], *lists[1]]
    config = from_tables(written, place.source, folder)
    return CaseConfig(case.label, case.value, config, len(lists[0]), case.shared or study.shared)


def _methods(tables: tuple[_Run, ...], case: Case, changes: AtScale) -> Iterator[_Run]:
    for table in tables:
        label = label_of(table)
        if label not in changes.without:
            for made in (case.methods, changes.methods):
                table = merged(merged(table, made.get("all", {})), made.get(label, {}))
            yield table


def label_of(table: dict[str, Any]) -> str:
    """The label of a method's table."""
    return str(table.get("label") or table.get("name"))


def _settings(table: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in ("label", "tune")}


def merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """The first table updated with the second; a table with another `name` replaces the first."""
    if "name" in second and second["name"] != first.get("name"):
        return dict(second)
    rivals = {"steps", "epochs"} if second.keys() & {"steps", "epochs"} else set()
    result = {key: value for key, value in first.items() if key not in rivals}
    for key, value in second.items():
        both = isinstance(value, dict) and isinstance(first.get(key), dict)
        result[key] = merged(first[key], value) if both else value
    return result


def _read(name: str) -> tuple[str, Study, Place]:
    """(name, study, place for errors) of a packaged study or of a TOML file."""
    name, text, place = _source(name)
    written = parsed(text, place)
    claims = written.get("claims")
    for i, claim in enumerate(claims if isinstance(claims, list) else ()):
        if isinstance(claim, dict) and claim.get("measure") == "late":
            raise place.key("claims").item(i).key("measure").error('"late": renamed; use "final"')
    return name, validated(Study, written, place), place


def _source(name: str) -> tuple[str, str, Place]:
    """(name, text, place for errors) of a packaged study or of a TOML file."""
    if name.endswith(".toml"):
        return Path(name).stem, read(Path(name)), Place(name)
    known = name.replace("-", "_")
    if known not in _files():
        raise FedtideError(f"'{name}' is unknown; {did_you_mean(known, _files())}")
    return known, _files()[known].read_text("utf-8"), Place(f"{known}.toml")


@functools.cache
def _files() -> dict[str, Any]:
    folder = resources.files("fedtide.reproduce").joinpath("papers")
    files = [file for paper in papers() for file in sorted(folder.joinpath(paper).iterdir(), key=lambda f: f.name)]
    return {file.name.removesuffix(".toml"): file for file in files}
