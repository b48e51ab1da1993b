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
from fedtide.experiments.recommendation.limits import Burden, Constraints, burden, refusal
from fedtide.experiments.recommendation.runs import GENERATED, RECORDED, Progress, Runs, Tuned, evaluated, tuned
from fedtide.experiments.recommendation.task import SIMULATED, Task, configuration, task
from fedtide.experiments.recommendation.verdict import WORTH, Ends, Verdict, against, decide, horizons
from fedtide.files import atomic
from fedtide.fleet.model import FleetModel
from fedtide.fleet.storage import load_model
from fedtide.report import recommendation as page
from fedtide.report import recommendation_words as words
from fedtide.report import statistics
from fedtide.simulation import describe


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
        whole("parameters", parameters, 1)
    model = _loaded(fleet)
    job = task(model, problem, rounds=rounds, methods=methods, trials=trials, seeds=seeds, seed=seed)
    part = fleets.part_of(model, job.chosen)
    generator, wanted = fleets.generated(part), fleets.scenarios(part)
    found = tuned(job.config, job.experiment._replace(availability=generator), _told(progress, "tune"))
    settings: dict[str, Process] = {RECORDED: fleets.recorded(part, seed), GENERATED: generator}
    settings |= {scenario.name: scenario.process for scenario in wanted}
    runs = evaluated(job.experiment.problem, settings, found.methods, job.config, job.seeds, _told(progress, "run"))
    facts = _facts(model, job, found, runs, constraints, worth, parameters or runs.parameters, wanted)
    facts["config"] = configuration(job, facts, found.choices)
    facts |= {"seconds": round(time.monotonic() - begun, 1), **(about or {})}
    devices = runs.devices.join(_names(job.chosen), on="client")
    return Recommendation(json.loads(json.dumps(facts)), part, runs.ends, runs.rounds, devices, found.tuning.trials)


def _loaded(fleet: FleetModel | str | Path) -> FleetModel:
    if isinstance(fleet, FleetModel):
        return fleet
    require(isinstance(fleet, str | Path), "fleet", fleet, "a fitted fleet, or the folder of one")
    return load_model(fleet)


def _told(progress: Progress | None, what: str) -> Progress | None:
    return None if progress is None else lambda label, done, total: progress(f"{what} {label}", done, total)


def _names(chosen: fleets.Chosen) -> pl.DataFrame:
    columns = chosen.table.select("device", "kind", "availability", "correlation")
    return columns.with_columns(client=pl.int_range(pl.len(), dtype=pl.Int64))


def _facts(
    model: FleetModel,
    job: Task,
    found: Tuned,
    runs: Runs,
    constraints: Constraints,
    worth: float,
    parameters: int,
    wanted: Sequence[fleets.Scenario],
) -> dict[str, Any]:
    """All of the answer but its configuration, as plain data."""
    kind = statistics.metric(runs.rounds)
    require(
        constraints.floor is None or kind == "accuracy", "floor", constraints.floor,
        "left out: the problem has no test data to hold it against",
    )  # fmt: skip
    ends, devices = Ends(runs.ends, kind, worth), model.devices.height
    burdens = {label: _burden(found, runs, label, parameters, devices) for label in found.methods}
    refused = {label: why for label, asked in burdens.items() if (why := refusal(asked, constraints)) is not None}
    verdict = decide(ends, refused, burdens, constraints.floor)
    among = [m for m in ends.methods if m not in refused and m not in verdict.below_floor]
    reference = verdict.recommended or verdict.best
    changes: dict[str, Any] = {"horizons": [], "scenarios": [], "relaxed": []}
    if reference is not None:
        pool = among or [reference]
        changes["horizons"] = horizons(ends, pool, reference, job.config.run.rounds)
        for scenario in wanted:
            row = against(ends, pool, reference, scenario.name)
            changes["scenarios"] += [] if row is None else [{"name": scenario.name, "words": scenario.words, **row}]
        changes["relaxed"] = _relaxed(ends, burdens, constraints, verdict, reference)
    return {
        "kind": kind,
        "rounds": job.config.run.rounds,
        "seeds": job.seeds,
        "trials": job.config.tune.trials,
        "tuning_seeds": found.tuning.about["seeds"],
        "evaluate_every": job.config.run.evaluate_every,
        "history": job.config.run.history,
        "fleet": fleets.about(model, job.chosen),
        "problem": {"name": job.name, "stand_in": job.stand_in, "parameters": runs.parameters, "deployed": parameters},
        "constraints": constraints._asdict(),
        "worth": worth,
        "verdict": {**verdict.plain(), "reference": reference},
        "methods": [_row(ends, runs, found, label, verdict, refused, burdens, reference) for label in ends.methods],
        **changes,
        "served_worst": _served_worst(runs, job.chosen, reference),
        "edges": {o.method: o.edges for o in found.tuning.outcomes if o.edges},
        "warnings": found.tuning.warnings,
        "versions": describe.versions(),
        "hardware": describe.hardware(),
        "command": None,
    }


def _burden(found: Tuned, runs: Runs, label: str, parameters: int, devices: int) -> Burden:
    clusters = getattr(found.methods[label].aggregation, "clusters", 0)
    return burden(runs.methods[label]["facts"], parameters, devices, clusters)


def _row(
    ends: Ends,
    runs: Runs,
    found: Tuned,
    label: str,
    verdict: Verdict,
    refused: Mapping[str, tuple[str, str]],
    burdens: Mapping[str, Burden],
    reference: str | None,
) -> dict[str, Any]:
    """A method: how it ends, against the reference, what it asks for, what became of it."""
    outcome = next(o for o in found.tuning.outcomes if o.method == label)
    described = runs.methods[label]
    row: dict[str, Any] = {
        "method": label,
        "name": described["name"],
        "summary": described["summary"],
        "chosen": outcome.chosen.values if outcome.chosen else {},
        "facts": {key: described["facts"][key] for key in ("extra_up", "extra_down", "server_memory", "client_memory")},
        **burdens[label]._asdict(),
        "refused": refused[label][1] if label in refused else None,
        "diverged": ends.diverged(label),
    }
    for setting in (RECORDED, GENERATED):
        row[setting] = {
            **ends.value(label, setting)._asdict(),
            "worst_decile": ends.value(label, setting, column="worst_decile").mean,
            "difference": None if reference is None else ends.difference(label, reference, setting)._asdict(),
        }
    worse = reference is not None and label not in verdict.level
    row["verdict"] = (
        "refused" if label in refused
        else "diverged" if row["diverged"]
        else "below the floor" if label in verdict.below_floor
        else "recommended" if label == verdict.recommended
        else "behind there" if worse and verdict.recorded and label in verdict.recorded.level
        else "behind" if worse
        else "level" if verdict.recommended
        else "not firm"
    )  # fmt: skip
    return row


def _relaxed(
    ends: Ends, burdens: Mapping[str, Burden], limits: Constraints, verdict: Verdict, reference: str
) -> list[dict[str, Any]]:
    """For each constraint: who could be used without it, and what the best of them would gain over the reference."""
    found = []
    held = set(verdict.below_floor)
    for name in ("client_memory", "server_memory", "extra_messages", "floor"):
        if getattr(limits, name) is None:
            continue
        looser = limits._replace(**{name: None})
        refused = {m for m, asked in burdens.items() if refusal(asked, limits) is not None}
        still = {m for m, asked in burdens.items() if refusal(asked, looser) is not None}
        freed = [m for m in ends.methods if m in refused - still or (name == "floor" and m in held - refused)]
        row = against(ends, freed, reference, RECORDED) if freed else None
        if row is not None:
            row["changes"] = ends.gains(row["best"], reference, RECORDED)
            found.append({"constraint": name, "freed": freed, **row})
    return found


def _served_worst(runs: Runs, chosen: fleets.Chosen, reference: str | None) -> list[dict[str, Any]]:
    """The tenth of the devices that the reference serves worst, on the record, by name."""
    own = runs.devices.filter(pl.col("method") == reference, pl.col("accuracy").is_finite())
    tenth = -(-own.height // 10)
    table = own.join(_names(chosen), on="client").sort("accuracy", "client").head(tenth)
    return table.select("device", "kind", "availability", "correlation", "accuracy", "there", "included").to_dicts()


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
