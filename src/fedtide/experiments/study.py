"""Studies: a paper's figure or table as data, at three scales, with the claims that it is to decide.

A study is a TOML file: a configuration (`[problem]`, `[availability]`, `[run]`, `[local]`, `[[methods]]`, `[tune]`) and

    paper = "ca_fed"
    figure = "Fig. 1a"
    title = "Test accuracy over rounds"
    about = "What the paper shows there, and how it is done here."
    draws = 10                  # independent data sets, each with its own seeds
    shows = ["curves"]          # what is drawn

    [[fixed]]                   # methods that run as written, next to those that are tuned
    [[cases]]                   # what is varied: a label, perhaps a value, and changes of the configuration
    [scales.reduced]            # changes of the configuration at that scale
    [[claims]]                  # what the paper says, and the statistic and threshold that decide it

Changes of a case come before those of a scale.
"""

import functools
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field

from fedtide.data import places
from fedtide.errors import FedtideError, did_you_mean
from fedtide.experiments.config import Config, Positive, Table, Word, loads, parsed, read, validated
from fedtide.experiments.place import Place
from fedtide.tomls import dumps

ScaleName = Literal["smoke", "reduced", "paper"]
Picture = Literal["curves", "ends", "grid", "classes", "inclusion", "regions", "map"]
Measure = Literal[
    "late", "average", "best", "spread", "worst_decile", "objective", "tail_loss", "classes", "included", "speedup"
]

REDUCED = {"mnist": "mnist10k", "fashion_mnist": "fmnist20k", "cifar10": "cifar10_12k"}
"""The data sets that stand for others at the reduced scale."""

EMBEDDED = "digits"
"""The data set that stands for all others at the smoke scale."""


class Changes(Table):
    """What differs from the study's configuration: tables are merged, other values replaced."""

    problem: dict[str, Any] = Field(default={}, description="a table of changes")
    availability: dict[str, Any] = Field(default={}, description="a table of changes")
    run: dict[str, Any] = Field(default={}, description="a table of changes")
    local: dict[str, Any] = Field(default={}, description="a table of changes")
    tune: dict[str, Any] = Field(default={}, description="a table of changes")
    methods: dict[str, dict[str, Any]] = Field(
        default={}, description='a table for each label, or for "all", of method arguments to change'
    )


class Case(Changes):
    """One panel of a figure, or one point of its horizontal axis."""

    label: str = Field(description="a name for tables and figures")
    value: float | None = Field(default=None, description="a number: where on an axis the case stands")


class AtScale(Changes):
    """How a study is run at one scale."""

    note: str = Field(default="", description="text: how this differs from what was published")
    caveat: str = Field(default="", description="text: what verdicts at this scale cannot tell")
    draws: Positive | None = Field(default=None, description="a number of data draws, 1 or more")
    cases: tuple[Word, ...] | None = Field(default=None, description="a list of the labels of the cases to run")
    without: tuple[Word, ...] = Field(default=(), description="a list of the labels of methods that are left out")


class Claim(Table):
    """What the paper says, and what decides whether it holds here."""

    says: Word = Field(description="the claim, a sentence")
    published: Word = Field(description="the numbers that the paper gives for it")
    source: Literal["paper", "code", "ours"] = Field(
        default="paper",
        description='who says so: "paper", "code" (the authors\' repository) or "ours" (a question of ours)',
    )
    method: Word = Field(description="the label of the method that the claim is about")
    measure: Measure = Field(
        default="late",
        description='"late", "average", "best", "spread", "worst_decile", "objective", "tail_loss", "classes", '
        '"included" or "speedup"',
    )
    against: Word | tuple[Word, ...] | None = Field(
        default=None, description="the label of the method to compare with, a list of labels, or nothing: with `value`"
    )
    value: float = Field(default=0.0, description="a number to compare with where there is no other method")
    holds: Literal["above", "below", "within"] = Field(default="above", description='"above", "below" or "within"')
    by: float = Field(default=0.0, description="a number: the threshold, in points for accuracies")
    cases: tuple[Word, ...] | None = Field(default=None, description="a list of the labels of cases")
    trend: bool = Field(default=False, description="true or false: whether it is about the slope over the cases")
    classes: tuple[int, ...] = Field(default=(), description="a list of classes, for the measure classes")
    group: Word | None = Field(default=None, description="a kind of clients, for the measure included")
    against_group: Word | None = Field(default=None, description="a kind of clients to compare the group with")


_Run = dict[str, Any]


class Study(Table):
    """One figure or table."""

    paper: Word = Field(description="the key of a paper")
    figure: Word = Field(description="text, such as Fig. 1a")
    title: Word = Field(description="text")
    about: Word = Field(description="text: what the paper shows, and how it is done here")
    shows: tuple[Picture, ...] = Field(
        default=("curves",),
        description='a list of "curves", "ends", "grid", "classes", "inclusion", "regions" or "map"',
    )
    draws: Positive = Field(default=1, description="a number of data draws, 1 or more")
    inclusion: tuple[Word, ...] = Field(
        default=(), description="a list of labels of methods whose invitations are recorded"
    )
    problem: _Run = Field(description="a table with the name of a problem and its arguments")
    availability: _Run = Field(description="a table with the name of an availability process and its arguments")
    run: _Run = Field(description="a table with rounds, seeds, evaluate_every and more")
    local: _Run = Field(default={}, description="a table with steps or epochs, and batch")
    tune: _Run | None = Field(default=None, description="a table with trials, seeds, rounds, validation, space")
    methods: tuple[_Run, ...] = Field(description="one or more tables [[methods]]: tuned, with the same budget")
    fixed: tuple[_Run, ...] = Field(default=(), description="tables [[fixed]]: methods that run as written")
    cases: tuple[Case, ...] = Field(default=(), description="tables [[cases]], each with a label and changes")
    scales: dict[ScaleName, AtScale] = Field(description="tables [scales.smoke], [scales.reduced], [scales.paper]")
    claims: tuple[Claim, ...] = Field(default=(), description="tables [[claims]]")


class Paper(Table):
    """Where studies come from."""

    title: Word = Field(description="text")
    authors: str = Field(default="", description="text")
    venue: str = Field(default="", description="text")
    year: int | None = Field(default=None, description="a year")
    about: Word = Field(description="text: what it says, and what can be known of it")


class Panel(NamedTuple):
    """One case, ready to build."""

    label: str
    value: float | None
    config: Config
    tuned: int  # the first so many of its methods are tuned, the others run as written


class Plan(NamedTuple):
    """A study at a scale."""

    name: str
    scale: ScaleName
    study: Study
    draws: int
    panels: list[Panel]


def names() -> list[str]:
    """The packaged studies, in the order of papers and figures."""
    return list(_files())


@functools.cache
def papers() -> dict[str, Paper]:
    """The papers, by key, in the order in which they are told."""
    place = Place("papers.toml")
    text = resources.files("fedtide.experiments").joinpath("papers", "papers.toml").read_text("utf-8")
    return {key: validated(Paper, table, place.key(key)) for key, table in parsed(text, place).items()}


def by_paper() -> dict[str, dict[str, Study]]:
    """The packaged studies by paper and name."""
    found: dict[str, dict[str, Study]] = {paper: {} for paper in papers()}
    for name in names():
        study = load_study(name)[1]
        found[study.paper][name] = study
    return found


def load_study(name: str) -> tuple[str, Study]:
    """(its name, the study) of a packaged study, or of a TOML file."""
    if name.endswith(".toml"):
        path = Path(name)
        return path.stem, _study(read(path), str(path))
    known = name.replace("-", "_")
    if known not in _files():
        raise FedtideError(f"'{name}' is unknown; {did_you_mean(known, _files())}")
    return known, _study(_files()[known].read_text("utf-8"), f"{known}.toml")


def plan(name: str, scale: ScaleName, data_dir: Path | None = None) -> Plan:
    """The study's cases at a scale, each as a configuration."""
    source = Path(name) if name.endswith(".toml") else None
    name, study = load_study(name)
    place = Place(f"{name}.toml" if source is None else str(source))
    if scale not in study.scales:
        raise place.error(f"there is no scale '{scale}'; {did_you_mean(scale, study.scales)}")
    changes = study.scales[scale]
    cases = study.cases or (Case.model_construct(label=""),)  # the only one, without a name
    wanted = changes.cases or tuple(case.label for case in cases)
    for label in wanted:
        if label not in {case.label for case in cases}:
            raise place.key("scales").key(scale).error(f"no case is called '{label}'")
    _check(study, place)
    folder = Path() if source is None else source.parent
    panels = [_panel(study, case, scale, place, folder, data_dir) for case in cases if case.label in wanted]
    return Plan(name, scale, study, changes.draws or study.draws, panels)


def _check(study: Study, place: Place) -> None:
    """What a run would find out too late."""
    methods = [label_of(m) for m in (*study.methods, *study.fixed)]
    cases = [case.label for case in study.cases]
    for kind, labels in (("methods", methods), ("cases", cases)):
        for label in labels:
            if labels.count(label) > 1:
                raise place.key(kind).error(f"two are labelled '{label}'; give each its own label")
    if "seed" in study.problem:
        raise place.key("problem").key("seed").error("set by the number of the data draw; leave it out")
    for label in study.inclusion:
        if label not in methods:
            raise place.key("inclusion").error(f"no method is labelled '{label}'; {did_you_mean(label, methods)}")
    for i, claim in enumerate(study.claims):
        at = place.key("claims").item(i)
        rivals = (claim.against,) if isinstance(claim.against, str) else claim.against or ()
        for key, labels, known in (
            ("method", (claim.method,), methods), ("against", rivals, methods), ("cases", claim.cases or (), cases)
        ):  # fmt: skip
            for label in labels:
                if label not in known:
                    raise at.key(key).error(f"nothing is labelled '{label}'; {did_you_mean(label, known)}")
        if claim.measure == "speedup" and not rivals:
            raise at.key("against").error("missing; a speedup is over another method")
        if (claim.measure == "classes") != bool(claim.classes):
            raise at.key("classes").error('the measure "classes" and a list of classes need each other')
        if (claim.measure == "included") != bool(claim.group):
            raise at.key("group").error('the measure "included" and a group of clients need each other')
        if claim.measure == "included" and claim.method not in study.inclusion:
            raise at.key("method").error(f"'{claim.method}' is not in inclusion: its invitations are not recorded")
        if claim.trend and any(c.value is None for c in study.cases if claim.cases is None or c.label in claim.cases):
            raise at.key("trend").error("every case that it looks at must have a value")


def with_problem(config: Config, **changes: Any) -> Config:
    """The configuration with other values in its [problem] table."""
    written = config.model_dump(exclude_unset=True)
    written["problem"] |= changes
    return loads(dumps(written), config.origin.source, config.origin.folder)


def _panel(study: Study, case: Case, scale: ScaleName, place: Place, folder: Path, data_dir: Path | None) -> Panel:
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
    if file is not None:  # a trace lies where data lie
        lies = (there.path / file for there in places(data_dir))
        written["availability"]["path"] = str(next((path.resolve() for path in lies if path.is_file()), file))
    lists = [list(_methods(kind, case, changes)) for kind in (study.methods, study.fixed)]
    known = {label_of(m) for m in (*study.methods, *study.fixed)} | {"all"}
    for label in (*case.methods, *changes.methods, *changes.without):
        if label not in known:
            raise place.error(f"no method is labelled '{label}'; {did_you_mean(label, known)}")
    written["methods"] = [*lists[0], *lists[1]]
    return Panel(case.label, case.value, loads(dumps(written), place.source, folder), len(lists[0]))


def _methods(tables: tuple[_Run, ...], case: Case, changes: AtScale) -> Iterator[_Run]:
    for table in tables:
        label = label_of(table)
        if label not in changes.without:
            for made in (case.methods, changes.methods):
                table = merged(merged(table, made.get("all", {})), made.get(label, {}))
            yield table


def label_of(table: dict[str, Any]) -> str:
    """What a method's table is called."""
    return str(table.get("label") or table.get("name"))


def merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """The first with the second's values; a table that names something else replaces the first's."""
    if "name" in second and second["name"] != first.get("name"):
        return dict(second)
    rivals = {"steps", "epochs"} if second.keys() & {"steps", "epochs"} else set()
    found = {key: value for key, value in first.items() if key not in rivals}
    for key, value in second.items():
        both = isinstance(value, dict) and isinstance(first.get(key), dict)
        found[key] = merged(first[key], value) if both else value
    return found


def _study(text: str, source: str) -> Study:
    place = Place(source)
    return validated(Study, parsed(text, place), place)


@functools.cache
def _files() -> dict[str, Any]:
    folder = resources.files("fedtide.experiments").joinpath("papers")
    found = [file for paper in papers() for file in sorted(folder.joinpath(paper).iterdir(), key=lambda f: f.name)]
    return {file.name.removesuffix(".toml"): file for file in found}
