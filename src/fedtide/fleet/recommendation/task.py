"""The task of a recommendation: the problem with one client per device, the candidates, the number of rounds."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedtide import methods as catalogue
from fedtide import problems
from fedtide.errors import InvalidInput, whole
from fedtide.experiments.build import Experiment, build, located, settings
from fedtide.experiments.config import Config, MethodChoice, from_tables, parsed, read
from fedtide.experiments.place import Place
from fedtide.fleet.model import FleetModel
from fedtide.fleet.recommendation import scenarios as fleets
from fedtide.fleet.recommendation.findings import Findings
from fedtide.tuning.tune import chosen_toml

CANDIDATES = ("fedavg", "unbiased", "fedau", "ca_fed", "mifa", "scaffold", "fedawe", "most_available")
"""The baseline, two that weight by availability, one that drops rare and correlated clients, memory on the server, two
with memory on the client, and a biased one for comparison that drops half of the fleet."""

STAND_IN = {"name": "digits", "concentration": 0.3, "test_fraction": 0.3}
STAND_IN_LOCAL = {"steps": 5, "batch": 16}  # devices have 10 to 30 images: larger minibatches would repeat them
SPACE = {"rate": [0.01, 0.03, 0.1, 0.3, 1.0], "server_rate": [0.1, 0.3, 1.0, 3.0, 10.0]}
ROUNDS, TRIALS, TUNING_SEEDS, SEEDS, EVALUATIONS = 200, 16, 4, 8, 40
_MOST_HISTORY = 500
_OWN = "your own problem"
SIMULATED = "fleet"
"""The folder of the simulated devices, next to the configuration that refers to it."""


class ComparisonTask(NamedTuple):
    """The comparison to make, and its devices."""

    config: Config
    experiment: Experiment  # its availability is replaced by the fleet's
    chosen: fleets.ChosenDevices
    seeds: int
    stand_in: bool  # no problem was given
    writable: bool  # a configuration can name the problem


def task(
    model: FleetModel,
    problem: Any,
    *,
    rounds: int | None,
    methods: Sequence[str | Mapping[str, Any]] | None,
    trials: int | None,
    seeds: int | None,
    seed: int,
) -> ComparisonTask:
    """Builds the problem for the fleet's devices, and the candidates."""
    written, source, folder, own = _tables(problem)
    run, tune = dict(written.get("run", {})), dict(written.get("tune", {}))
    run["rounds"] = whole("rounds", run.get("rounds", ROUNDS) if rounds is None else rounds, 1)
    count = run.get("seeds", SEEDS) if seeds is None else whole("seeds", seeds, 1)
    run["seeds"] = len(count) if isinstance(count, list) else count
    run.setdefault("evaluate_every", max(1, run["rounds"] // EVALUATIONS))
    run.setdefault("history", min(len(model.record) // 2, _MOST_HISTORY))  # estimators can use the log before training
    tune["trials"] = whole("trials", tune.get("trials", TRIALS) if trials is None else trials, 1)
    tune.setdefault("seeds", TUNING_SEEDS)
    tune.setdefault("space", SPACE)
    listed = _candidates(methods) if methods is not None else written.get("methods") or _candidates(CANDIDATES)
    table = dict(written["problem"])
    known = own is None and table.get("name") in problems.CATALOGUE
    if known and "clients" in settings(problems.find(table["name"]).build):
        table.setdefault("clients", len(fleets.choose(model, None, seed).numbers))
    kept = {key: written[key] for key in ("title", "local") if key in written}
    availability = {"name": "always"}  # replaced by the fleet's
    tables = kept | {"problem": table, "availability": availability, "run": run, "tune": tune, "methods": listed}
    config = from_tables(tables, source, folder)
    experiment = build(config, own)
    chosen = fleets.choose(model, len(experiment.problem.sizes), seed)
    return ComparisonTask(config, experiment, chosen, run["seeds"], problem is None, own is None)


class _ProblemTables(NamedTuple):
    """The problem and options as the tables of a configuration."""

    tables: dict[str, Any]
    source: str = "recommend"  # what errors call them
    folder: Path = Path()  # what file names are relative to
    own: Any = None  # a problem given in Python


def _tables(problem: Any) -> _ProblemTables:
    if problem is None:
        return _ProblemTables({"problem": dict(STAND_IN), "local": dict(STAND_IN_LOCAL)})
    if isinstance(problem, Mapping):
        return _ProblemTables({"problem": dict(problem)})
    if isinstance(problem, Path) or (isinstance(problem, str) and problem.endswith(".toml")):
        path = Path(problem)
        place = Place(str(path))
        tables = parsed(read(path), place)
        if not isinstance(tables.get("problem"), dict):
            raise place.key("problem").error("missing; must be a table with the name of a problem and its arguments")
        return _ProblemTables(tables, str(path), path.parent)
    if isinstance(problem, str):
        problems.find(problem)
        return _ProblemTables({"problem": {"name": problem}})
    if all(hasattr(problem, name) for name in ("sizes", "importance", "init", "evaluate")):
        return _ProblemTables({"problem": {"name": _OWN}}, own=problem)
    raise InvalidInput("problem", problem, "the name of a built-in problem, a table, a .toml file, or a problem")


def _candidates(methods: Sequence[str | Mapping[str, Any]]) -> list[dict[str, Any]]:
    tables = [{"name": m} if isinstance(m, str) else dict(m) for m in methods]
    if not tables:
        raise InvalidInput("methods", [], "one name or more")
    for table in tables:
        catalogue.find(str(table.get("name")))
    return tables


def configuration(job: ComparisonTask, findings: Findings, choices: Mapping[str, MethodChoice], sentence: str) -> str:
    """TOML for `fedtide run`: the answer as a comment, the recommended method as tuned, then the comparable ones."""
    verdict = findings.verdict

    def comment(label: str) -> str:
        if verdict.recommended is None:
            return "No firm recommendation."
        if label == verdict.recommended:
            return "Recommended, as tuned."
        return f"Verdict: {findings.of(label).verdict}."

    generated = verdict.generated.level if verdict.generated and not verdict.recommended else ()
    first = (verdict.recommended,) if verdict.recommended else ()
    labels = list(dict.fromkeys((*first, *verdict.level, *generated))) or list(choices)
    tables = located(job.config)
    tables["availability"] = {"name": "fleet", "path": SIMULATED}  # add recorded = true to replay the log itself
    tables = {key: tables[key] for key in ("title", "problem", "availability", "run", "local") if key in tables}
    head = [sentence]
    if not job.writable:
        del tables["problem"]
        head.append("The problem was given in Python: add [problem], or run this in Python.")
    return chosen_toml(head, tables, [(choices[label], [comment(label)]) for label in labels])
