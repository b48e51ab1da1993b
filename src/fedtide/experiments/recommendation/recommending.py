"""`recommend`: which method to use on a fleet, by how much, who would be under-served, when the answer would change."""

import dataclasses
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from fedtide.availability import Process
from fedtide.errors import number, require, whole
from fedtide.experiments.recommendation import fleet as fleets
from fedtide.experiments.recommendation.facts import facts_of, names
from fedtide.experiments.recommendation.limits import Constraints
from fedtide.experiments.recommendation.runs import GENERATED, RECORDED, Progress, draw, evaluated, tuned
from fedtide.experiments.recommendation.task import SIMULATED, Task, check_floor, configuration, task
from fedtide.experiments.recommendation.verdict import WORTH
from fedtide.files import atomic
from fedtide.fleet.model import FleetModel
from fedtide.fleet.storage import load_model
from fedtide.report import recommendation as page
from fedtide.report import recommendation_words as words


@dataclasses.dataclass(frozen=True, repr=False)
class Recommendation:
    """The answer as plain data (`about`), and what is behind it.

    `fleet` holds the devices that were simulated: client k is device k. `ends` has a row for each setting, horizon,
    method and seed; `rounds` the evaluations on the record; `devices` a row for each method and device; `trials` all
    that was tried in tuning.
    """

    about: dict[str, Any]
    fleet: FleetModel
    ends: pl.DataFrame
    rounds: pl.DataFrame
    devices: pl.DataFrame
    trials: pl.DataFrame

    @property
    def recommended(self) -> str | None:
        """The method's label; None where none can be recommended."""
        return self.about["verdict"]["recommended"]

    @property
    def confidence(self) -> str:
        """clear, level, disagree, floor or none: see `verdict.Confidence`."""
        return self.about["verdict"]["confidence"]

    @property
    def sentence(self) -> str:
        """The answer in words."""
        return " ".join(words.answer(self.about))

    @property
    def config(self) -> str:
        """A configuration for `fedtide run`: the recommended method as it was tuned, then those level with it."""
        return self.about["config"]

    @property
    def table(self) -> pl.DataFrame:
        """A row for each method: how it ends, how it compares, what it asks for, and the verdict."""
        return pl.DataFrame([_flat(row) for row in self.about["methods"]], infer_schema_length=None)

    def save(self, folder: str | Path) -> Path:
        """Writes the simulated devices (`fleet`), `trials.parquet`, `recommended.toml`, which names them,
        `recommendation.html` and, last, `recommendation.json`."""
        folder = Path(folder)
        self.fleet.save(folder / SIMULATED)
        with atomic(folder / "trials.parquet") as temporary:
            self.trials.write_parquet(temporary)
        with atomic(folder / "recommended.toml") as temporary:
            temporary.write_text(self.config, "utf-8")
        page.write(folder / "recommendation.html", self.about, self.rounds, self.devices)
        with atomic(folder / "recommendation.json") as temporary:
            text = json.dumps({"sentence": self.sentence, **self.about}, indent=1, ensure_ascii=False)
            temporary.write_text(text + "\n", "utf-8")
        return folder

    def __repr__(self) -> str:
        return f"Recommendation({self.recommended or 'none'}; {self.confidence})"


def recommend(
    fleet: FleetModel | str | Path,
    problem: Any = None,
    *,
    rounds: int | None = None,
    methods: Sequence[str | Mapping[str, Any]] | None = None,
    constraints: Constraints = Constraints(),
    worth: float = WORTH,
    trials: int | None = None,
    seeds: int | None = None,
    parameters: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    about: Mapping[str, Any] | None = None,
) -> Recommendation:
    """Which method to use on a fleet: candidates are tuned alike and simulated on its record and on fleets like it.

    Args:
      fleet: a fitted fleet, or the folder of one.
      problem: a built-in problem (its name, or a table with name and arguments), a problem of your own, or a TOML file
        with [problem] and, if wanted, [local], [run], [tune] and [[methods]]. Client k is device k. Default: a small
        synthetic task that stands for yours.
      rounds: how long you will train (default 200).
      methods: names, or tables with name and arguments (default: eight that cover what methods do about absence).
      constraints: what the deployment can afford.
      worth: a smaller difference does not matter: the simplest of the methods within it of the best is recommended.
        A share of 1: of accuracy (0.005 is half a point), or, where there is no test data, of the best objective.
      trials: settings to try for each method (default 16), on four seeds of their own.
      seeds: runs of each method with the chosen settings, on the record and on each fleet like it (default 8).
      parameters: of the model that you will deploy, for the memory constraints (default: those of the problem).
      seed: draws the devices, where there are too many for all to take part, and what the record does not tell.
      progress: a function (what is being done, rounds done, rounds in all).
      about: further entries of `Recommendation.about` (command).
    """
    begun = time.monotonic()
    constraints.checked()
    number("worth", worth, low=0, high=1)
    if parameters is not None:
        whole("parameters", parameters, 1, 10**15)
    model = _loaded(fleet)
    job = task(model, problem, rounds=rounds, methods=methods, trials=trials, seeds=seeds, seed=seed)
    check_floor(constraints.floor, job.experiment.problem)
    part = fleets.part_of(model, job.chosen)
    generator, wanted = fleets.generated(part), fleets.scenarios(part)
    found = tuned(job.config, job.experiment._replace(availability=generator), _told(progress, "tune", job))
    settings: dict[str, Process] = {RECORDED: fleets.recorded(part, seed), GENERATED: generator}
    settings |= {scenario.name: scenario.process for scenario in wanted}
    run = job.config.run
    here = draw(settings, job.seeds, run, _told(progress, "draw", job))
    runs = evaluated(job.experiment.problem, list(settings), here, found.methods, run, _told(progress, "run", job))
    facts = facts_of(model, job, found, runs, constraints, worth, parameters or runs.parameters, wanted)
    facts["config"] = configuration(job, facts, found.choices)
    facts |= {"seconds": round(time.monotonic() - begun, 1), **(about or {})}
    devices = runs.devices.join(names(job.chosen), on="client")
    return Recommendation(json.loads(json.dumps(facts)), part, runs.ends, runs.rounds, devices, found.tuning.trials)


def _loaded(fleet: FleetModel | str | Path) -> FleetModel:
    if isinstance(fleet, FleetModel):
        return fleet
    require(isinstance(fleet, str | Path), "fleet", fleet, "a fitted fleet, or the folder of one")
    return load_model(fleet)


def _told(progress: Progress | None, what: str, job: Task) -> Progress:
    """Says which of how many methods is at work, so that one sees how much is left."""
    numbers = {label: f" ({i} of {len(job.experiment.methods)})" for i, label in enumerate(job.experiment.methods, 1)}

    def hear(label: str, done: int, total: int) -> None:
        if progress is not None:
            progress(f"{what} {label}{numbers.get(label, '')}", done, total)

    return hear


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: row[key] for key in ("method", "verdict")}
    for setting in (RECORDED, GENERATED):
        mine = row[setting]
        found |= {setting: mine["mean"], f"{setting}_low": mine["low"], f"{setting}_high": mine["high"]}
        gap: dict[str, Any] = mine["difference"] or dict.fromkeys(("mean", "low", "high"))
        found |= {
            f"{setting}_difference{end}": gap[key] for end, key in (("", "mean"), ("_low", "low"), ("_high", "high"))
        }
        found[f"{setting}_worst_decile"] = mine["worst_decile"]
    return found | {key: row[key] for key in ("extra_messages", "client_bytes", "server_bytes", "refused")}
