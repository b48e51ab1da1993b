"""What a recommendation is asked for: the problem with a client for each device, the candidates, how long."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from fedtide import methods as catalogue
from fedtide import problems
from fedtide.availability import Always
from fedtide.errors import InvalidInput, require, whole
from fedtide.experiments.build import Experiment, build, build_method, located, settings
from fedtide.experiments.config import Config, MethodChoice, dumps, loads, parsed, read
from fedtide.experiments.place import Place
from fedtide.experiments.recommendation import fleet as fleets
from fedtide.fleet.model import FleetModel

CANDIDATES = ("fedavg", "unbiased", "fedau", "ca_fed", "mifa", "scaffold", "fedawe", "most_available")
"""The baseline, weights for the absent (two), giving up the rare, memory on the server, on the client (two), and the
yardstick that drops half of the fleet."""

STAND_IN = {"name": "digits", "concentration": 0.3, "test_fraction": 0.3}
STAND_IN_LOCAL = {"steps": 5, "batch": 16}  # devices have 10 to 30 images: larger minibatches would repeat them
SPACE = {"rate": [0.01, 0.03, 0.1, 0.3, 1.0], "server_rate": [0.1, 0.3, 1.0, 3.0, 10.0]}
ROUNDS, TRIALS, TUNING_SEEDS, SEEDS, EVALUATIONS = 200, 16, 4, 8, 40
_MOST_HISTORY = 500
_OWN = "your own problem"
SIMULATED = "fleet"
"""The folder of the simulated devices, beside the configuration that names it."""


class Task(NamedTuple):
    """What will be compared, on which devices."""

    config: Config
    experiment: Experiment  # its availability is replaced by the fleet's
    chosen: fleets.Chosen
    seeds: int
    name: str  # of the problem
    stand_in: bool  # nobody chose the problem
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
) -> Task:
    """Builds the problem for the fleet's devices, and the candidates."""
    written, source, folder, own = _written(problem)
    run, tune = dict(written.get("run", {})), dict(written.get("tune", {}))
    run["rounds"] = whole("rounds", run.get("rounds", ROUNDS) if rounds is None else rounds, 1)
    kept = run.pop("seeds", SEEDS) if seeds is None else whole("seeds", seeds, 1)
    count = len(kept) if isinstance(kept, list) else kept
    run["seeds"] = count
    run.setdefault("evaluate_every", max(1, run["rounds"] // EVALUATIONS))
    run.setdefault("history", min(len(model.record) // 2, _MOST_HISTORY))  # the log is there: estimators have seen it
    tune["trials"] = whole("trials", tune.get("trials", TRIALS) if trials is None else trials, 1)
    tune.setdefault("seeds", TUNING_SEEDS)
    tune.setdefault("space", SPACE)
    listed = _candidates(methods) if methods is not None else written.get("methods") or _candidates(CANDIDATES)
    table = dict(written["problem"])
    known = own is None and table.get("name") in problems.CATALOGUE
    if known and "clients" in settings(problems.find(table["name"]).build):
        table.setdefault("clients", len(fleets.choose(model, None, seed).numbers))
    title = {"title": written["title"]} if "title" in written else {}
    local = {"local": written["local"]} if "local" in written else {}
    whole_text = title | {
        "problem": table, "availability": {"name": "always"}, "run": run, **local, "tune": tune, "methods": listed,
    }  # fmt: skip
    config = loads(dumps(whole_text), source, folder)
    experiment = build(config) if own is None else _around(own, config)
    chosen = fleets.choose(model, len(experiment.problem.sizes), seed)
    name = _OWN if own is not None else config.problem.name
    return Task(config, experiment, chosen, count, name, problem is None, own is None)


def _written(problem: Any) -> tuple[dict[str, Any], str, Path, Any]:
    """(tables, what errors call them, what files are relative to, a problem of the user's own)."""
    here = Path()
    if problem is None:
        return {"problem": dict(STAND_IN), "local": dict(STAND_IN_LOCAL)}, "recommend", here, None
    if isinstance(problem, Mapping):
        return {"problem": dict(problem)}, "recommend", here, None
    if isinstance(problem, Path) or (isinstance(problem, str) and problem.endswith(".toml")):
        path = Path(problem)
        place = Place(str(path))
        tables = parsed(read(path), place)
        if not isinstance(tables.get("problem"), dict):
            raise place.key("problem").error("missing; must be a table with the name of a problem and its arguments")
        return tables, str(path), path.parent, None
    if isinstance(problem, str):
        problems.find(problem)
        return {"problem": {"name": problem}}, "recommend", here, None
    if all(hasattr(problem, name) for name in ("sizes", "importance", "init", "evaluate")):
        return {"problem": {"name": _OWN}}, "recommend", here, problem
    raise InvalidInput("problem", problem, "the name of a built-in problem, a table, a .toml file, or a problem")


def _candidates(methods: Sequence[str | Mapping[str, Any]]) -> list[dict[str, Any]]:
    tables = [{"name": m} if isinstance(m, str) else dict(m) for m in methods]
    if not tables:
        raise InvalidInput("methods", [], "one name or more")
    for table in tables:
        catalogue.find(str(table.get("name")))
    return tables


def _around(problem: Any, config: Config) -> Experiment:
    """An experiment of a problem that no configuration can name."""
    built: dict[str, Any] = {}
    for i, choice in enumerate(config.methods):
        label = choice.label or catalogue.find(choice.name).title
        if label in built:
            raise InvalidInput("methods", f"two called '{label}'", "labelled: each with its own label")
        built[label] = build_method(config, i, choice, problem.sizes)
    return Experiment(problem, Always(len(problem.sizes)), built, config.run.model_dump(exclude_unset=True))


def check_floor(floor: float | None, problem: Any) -> None:
    """A floor can be held only against test data: to be known before minutes of simulation."""
    if floor is None:
        return
    tested = problem.evaluate(problem.init(jax.random.key(0))).tested
    require(bool(np.asarray(tested).any()), "floor", floor, "left out: the problem has no test data to hold it against")


def configuration(job: Task, facts: Mapping[str, Any], choices: Mapping[str, MethodChoice]) -> str:
    """TOML for `fedtide run`: the recommended method as tuned, then those level with it or not told from it."""
    from fedtide.report.recommendation_words import answer

    def with_it(label: str) -> str:
        found = next(row["verdict"] for row in facts["methods"] if row["method"] == label)
        return "Cannot be told from it." if found == "untold" else "Level with it."

    verdict = facts["verdict"]
    first = [verdict["recommended"]] if verdict["recommended"] else []
    there = verdict["generated"]["level"] if verdict["generated"] and not first else []
    named = list(dict.fromkeys([*first, *verdict["level"], *there])) or list(choices)
    tables = located(job.config)
    tables["availability"] = {"name": "fleet", "path": SIMULATED}  # add recorded = true to replay the log itself
    tables = {key: tables[key] for key in ("title", "problem", "availability", "run", "local") if key in tables}
    lines = [*_comment(" ".join(answer(facts))), ""]
    if not job.writable:
        del tables["problem"]
        lines = [*lines[:-1], "# The problem was given in Python: add [problem], or run it there.", ""]
    lines.append(dumps(tables))
    for label in named:
        entry = {k: v for k, v in choices[label].model_dump(exclude_unset=True).items() if k != "tune"}
        said = "Recommended, as tuned." if label in first else with_it(label) if first else "Not recommended firmly."
        lines += ["[[methods]]", f"# {said}", dumps(entry, inline=True)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(" ".join(text.split()), 86)]
