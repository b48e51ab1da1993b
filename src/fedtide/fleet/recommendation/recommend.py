"""`recommend`: which method to use on a fleet, by how much, which devices are under-served, what would change it."""

import dataclasses
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from fedtide.availability import Process
from fedtide.errors import number, require, whole
from fedtide.files import atomic, write_text
from fedtide.fleet.diagnosis.findings import plain
from fedtide.fleet.model import FleetModel
from fedtide.fleet.recommendation import scenarios as fleets
from fedtide.fleet.recommendation.facts import facts_of
from fedtide.fleet.recommendation.findings import Findings, fields
from fedtide.fleet.recommendation.limits import Constraints
from fedtide.fleet.recommendation.page import page, words
from fedtide.fleet.recommendation.runs import GENERATED, RECORDED, draw, evaluated, tune_all
from fedtide.fleet.recommendation.task import SIMULATED, ComparisonTask, configuration, task
from fedtide.fleet.recommendation.verdict import MARGIN, Confidence
from fedtide.fleet.storage import load_model
from fedtide.kinds import kinds_checked
from fedtide.simulation.progress import Progress
from fedtide.tuning.plan import tested


@dataclasses.dataclass(frozen=True, repr=False)
class Recommendation:
    """The answer (`findings`; as plain data: `about`) and the data behind it.

    `fleet` holds the simulated devices: client k is device k. `ends` has one row per setting, horizon, method and seed;
    `rounds` the evaluations on the record; `devices` one row per method and device; `trials` all trials of the tuning.
    """

    findings: Findings
    fleet: FleetModel
    ends: pl.DataFrame
    rounds: pl.DataFrame
    devices: pl.DataFrame
    trials: pl.DataFrame

    @property
    def about(self) -> dict[str, Any]:
        """The answer as plain data: what recommendation.json holds."""
        return plain(self.findings, fields)

    @property
    def recommended(self) -> str | None:
        """The label of the recommended method; None where there is none."""
        return self.findings.verdict.recommended

    @property
    def confidence(self) -> Confidence:
        """clear, level, disagree, floor or none: see `verdict.Confidence`."""
        return self.findings.verdict.confidence

    @property
    def sentence(self) -> str:
        """The answer in words."""
        return " ".join(words.answer(self.findings))

    @property
    def config(self) -> str:
        """A configuration for `fedtide run`: the recommended method as tuned, then the comparable ones."""
        return self.findings.config

    @property
    def table(self) -> pl.DataFrame:
        """One row per method: final results, differences, requirements and the verdict."""
        rows = []
        for row in self.findings.methods:
            flat: dict[str, Any] = {"method": row.method, "verdict": row.verdict}
            for setting in (RECORDED, GENERATED):
                ended = row.ended(setting)
                for name, estimate in ((setting, ended.final), (f"{setting}_difference", row.gap(setting))):
                    flat |= {f"{name}{end}": x for end, x in zip(("", "_low", "_high"), estimate, strict=True)}
                flat[f"{setting}_worst_decile"] = ended.worst.mean
            rows.append(flat | row.burden._asdict() | {"refused": row.refused})
        return pl.DataFrame(rows, infer_schema_length=None)

    def save(self, folder: str | Path) -> Path:
        """Writes the simulated devices (`fleet`), `trials.parquet`, `recommended.toml`, which names them,
        `recommendation.html` and, last, `recommendation.json`."""
        folder = Path(folder)
        self.fleet.save(folder / SIMULATED)
        with atomic(folder / "trials.parquet") as temporary:
            self.trials.write_parquet(temporary)
        write_text(folder / "recommended.toml", self.config)
        write_text(folder / "recommendation.html", page.render(self.findings, self.rounds, self.devices))
        text = json.dumps({"sentence": self.sentence, **self.about}, indent=1, ensure_ascii=False)
        write_text(folder / "recommendation.json", text + "\n")
        return folder

    def __repr__(self) -> str:
        return f"Recommendation({self.recommended or 'none'}; {self.confidence})"


@kinds_checked
def recommend(
    fleet: FleetModel | str | Path,
    problem: Any = None,
    *,
    rounds: int | None = None,
    methods: Sequence[str | Mapping[str, Any]] | None = None,
    constraints: Constraints = Constraints(),
    margin: float = MARGIN,
    trials: int | None = None,
    seeds: int | None = None,
    parameters: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    command: str | None = None,
    kept: str | Path | None = None,
) -> Recommendation:
    """Which method to use on a fleet: candidates with equal tuning, on its record and on generated fleets.

    Args:
      fleet: a fitted fleet, or the folder of one.
      problem: a built-in problem (its name, or a table with name and arguments), a problem of your own, or a TOML file
        with [problem] and, optionally, [local], [run], [tune] and [[methods]]. Client k is device k. Default: a small
        stand-in task.
      rounds: the length of the training (default 200).
      methods: names, or tables with name and arguments (default: eight that represent the ways to handle absence).
      constraints: limits of the deployment.
      margin: the smallest difference that matters: of the methods that are within it of the best, the simplest is
        recommended. A share of 1: of accuracy (0.005 is half a point), or, without test data, of the best objective.
      trials: settings to try for each method (default 16), on four separate seeds.
      seeds: runs of each method with the chosen settings, on the record and on each generated fleet (default 8).
      parameters: of the model to deploy, for the memory constraints (default: those of the problem).
      seed: for drawing the devices, where there are too many to simulate all, and the unobserved part of the record.
      progress: a function of (what is being done, rounds done, total rounds).
      command: the command line, to be shown on the page.
      kept: a folder for finished trials and runs, from which a recommendation that was stopped continues if it is asked
        for again with the same arguments. Delete it once the recommendation is saved.
    """
    begun = time.monotonic()
    constraints.checked()
    number("margin", margin, low=0, high=1)
    if parameters is not None:
        whole("parameters", parameters, 1, 10**15)
    if not isinstance(fleet, FleetModel):
        require(isinstance(fleet, str | Path), "fleet", fleet, "a fitted fleet, or the folder of one")
        fleet = load_model(fleet)
    job = task(fleet, problem, rounds=rounds, methods=methods, trials=trials, seeds=seeds, seed=seed)
    if constraints.floor is not None:  # checked before minutes of simulation
        require(tested(job.experiment.problem), "floor", constraints.floor, "left out: the problem has no test data")
    place = None if kept is None else Path(kept)
    part = fleets.part_of(fleet, job.chosen)
    generator, wanted = fleets.generated(part), fleets.scenarios(part)
    tuned = tune_all(
        job.config, job.experiment._replace(availability=generator), _numbered(progress, "tune", job), place
    )
    settings: dict[str, Process] = {RECORDED: fleets.recorded(part, seed), GENERATED: generator}
    settings |= {scenario.name: scenario.process for scenario in wanted}
    run = job.config.run
    drawn = draw(settings, job.seeds, run, _numbered(progress, "draw", job))
    problem = job.experiment.problem
    runs = evaluated(problem, list(settings), drawn, tuned.methods, run, _numbered(progress, "run", job), place)
    known = job.chosen.table.select("device", "kind", "availability", "correlation")
    known = known.with_columns(client=pl.int_range(pl.len(), dtype=pl.Int64))
    runs = runs._replace(devices=runs.devices.join(known, on="client"))
    findings = facts_of(fleet, job, tuned, runs, constraints, margin, parameters or runs.parameters, wanted)
    config = configuration(job, findings, tuned.choices, " ".join(words.answer(findings)))
    findings = findings._replace(command=command, config=config, seconds=round(time.monotonic() - begun, 1))
    return Recommendation(findings, part, runs.ends, runs.rounds, runs.devices, tuned.tuning.trials)


def _numbered(progress: Progress | None, what: str, job: ComparisonTask) -> Progress:
    """Adds the number of the method and of all methods, which show how much is left."""
    numbers = {label: f" ({i} of {len(job.experiment.methods)})" for i, label in enumerate(job.experiment.methods, 1)}

    def report(label: str, done: int, total: int) -> None:
        if progress is not None:
            progress(f"{what} {label}{numbers.get(label, '')}", done, total)

    return report
