"""The facts of a recommendation as plain data: what became of every method, who is served worst, what would change."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from fedtide.experiments.recommendation import fleet as fleets
from fedtide.experiments.recommendation.limits import Burden, Constraints, burden, refusal
from fedtide.experiments.recommendation.runs import GENERATED, RECORDED, Runs, Tuned
from fedtide.experiments.recommendation.task import Task
from fedtide.experiments.recommendation.verdict import Ends, Verdict, against, decide, horizons
from fedtide.fleet.model import FleetModel
from fedtide.report import statistics
from fedtide.simulation import describe


def facts_of(
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
            **_worst(ends, label, setting, reference),
            "difference": None if reference is None else ends.difference(label, reference, setting)._asdict(),
        }
    worse = reference is not None and label not in verdict.level
    # Below the best, yet not below the recommended, which was level with the best.
    alike = verdict.recommended is not None and not ends.gains(verdict.recommended, label, RECORDED)
    row["verdict"] = (
        "refused" if label in refused
        else "diverged" if row["diverged"]
        else "below the floor" if label in verdict.below_floor
        else "recommended" if label == verdict.recommended
        else "behind there" if worse and verdict.recorded and label in verdict.recorded.level
        else "behind the best" if worse and alike
        else "behind" if worse
        else "untold" if verdict.recommended and any(_untold(ends, label, verdict, s) for s in (RECORDED, GENERATED))
        else "level" if verdict.recommended
        else "not firm"
    )  # fmt: skip
    return row


def _untold(ends: Ends, label: str, verdict: Verdict, setting: str) -> bool:
    """Whether a method cannot be told from the recommended one under a setting under which both finished."""
    name = verdict.recommended
    if name is None or ends.diverged(label, setting) or ends.diverged(name, setting):
        return False
    return ends.untold(label, name, setting)


def _worst(ends: Ends, label: str, setting: str, reference: str | None) -> dict[str, Any]:
    """The worst-served tenth under a method, and against the reference."""
    mine = ends.value(label, setting, column="worst_decile")
    gap = None if reference is None else ends.difference(label, reference, setting, column="worst_decile")
    return {
        "worst_decile": mine.mean,
        "worst_low": mine.low,
        "worst_high": mine.high,
        "worst_difference": None if gap is None or gap.mean is None else gap._asdict(),
    }


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
            row["open"] = ends.untold(row["best"], reference, RECORDED)
            found.append({"constraint": name, "freed": freed, **row})
    return found


def _served_worst(runs: Runs, chosen: fleets.Chosen, reference: str | None) -> list[dict[str, Any]]:
    """The tenth of the devices that the reference serves worst, on the record, by name."""
    own = runs.devices.filter(pl.col("method") == reference, pl.col("accuracy").is_finite())
    tenth = -(-own.height // 10)
    table = own.join(names(chosen), on="client").sort("accuracy", "client").head(tenth)
    return table.select("device", "kind", "availability", "correlation", "accuracy", "there", "included").to_dicts()


def names(chosen: fleets.Chosen) -> pl.DataFrame:
    """The devices by client."""
    columns = chosen.table.select("device", "kind", "availability", "correlation")
    return columns.with_columns(client=pl.int_range(pl.len(), dtype=pl.Int64))
