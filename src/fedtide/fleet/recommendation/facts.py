"""From runs to the results of a recommendation: verdicts, under-served devices, other cases."""

from collections.abc import Iterator, Sequence

import polars as pl

from fedtide import methods, summaries
from fedtide.fleet.model import FleetModel
from fedtide.fleet.recommendation import findings
from fedtide.fleet.recommendation import scenarios as fleets
from fedtide.fleet.recommendation.limits import Burden, Constraints, burden, refusal
from fedtide.fleet.recommendation.runs import GENERATED, HORIZONS, RECORDED, Runs, TunedMethods
from fedtide.fleet.recommendation.task import ComparisonTask
from fedtide.fleet.recommendation.verdict import Ends, Verdict, against, decide
from fedtide.simulation import describe


def facts_of(
    model: FleetModel,
    job: ComparisonTask,
    tuned: TunedMethods,
    runs: Runs,
    constraints: Constraints,
    margin: float,
    parameters: int,
    wanted: Sequence[fleets.Scenario],
) -> findings.Findings:
    """The whole answer but its configuration."""
    run, ends = job.config.run, Ends(runs.ends, summaries.metric(runs.rounds), margin)
    burdens = {}
    for label, method in tuned.methods.items():
        clusters = getattr(method.aggregation, "clusters", 0)
        burdens[label] = burden(runs.facts[label], parameters, model.devices.height, clusters)
    refused = _refused(burdens, constraints)
    verdict = decide(ends, refused, burdens, constraints.floor)
    reference = verdict.reference
    horizons, others, relaxed = [], [], []
    if reference is not None:
        among = [m for m in ends.methods if m not in refused and m not in verdict.below_floor] or [reference]
        for share in HORIZONS:
            if case := against(ends, among, reference, RECORDED, share):
                horizons.append(findings.Shorter(share, max(1, round(share * run.rounds)), case))
        for scenario in wanted:
            if case := against(ends, among, reference, scenario.name):
                others.append(findings.Otherwise(scenario.name, scenario.words, case))
        relaxed = list(_relaxed(ends, burdens, constraints, verdict, reference))
    outcomes = {outcome.method: outcome for outcome in tuned.tuning.outcomes}
    candidates = []
    for label in ends.methods:
        name, chosen = tuned.methods[label].name, outcomes[label].chosen
        recorded, generated = (_ended(ends, label, setting, reference) for setting in (RECORDED, GENERATED))
        candidates.append(
            findings.Candidate(
                label, name, methods.find(name).summary, chosen.values if chosen else {}, runs.facts[label],
                burdens[label], refused.get(label), ends.diverged(label), recorded, generated,
                "excluded" if label in refused else _outcome(ends, label, verdict),
            )
        )  # fmt: skip
    return findings.Findings(
        kind=ends.kind,
        rounds=run.rounds,
        seeds=job.seeds,
        trials=job.config.tune.trials,
        tuning_seeds=tuned.tuning.plan.seeds,
        evaluate_every=run.evaluate_every,
        history=run.history,
        fleet=fleets.described(model, job.chosen),
        problem=findings.TrainedProblem(job.config.problem.name, job.stand_in, runs.parameters, parameters),
        constraints=constraints,
        margin=margin,
        verdict=verdict,
        methods=candidates,
        horizons=horizons,
        scenarios=others,
        relaxed=relaxed,
        served_worst=_served_worst(runs, reference),
        edges={label: outcome.edges for label, outcome in outcomes.items() if outcome.edges},
        warnings=tuned.tuning.warnings,
        versions=describe.versions(),
        hardware=describe.hardware(),
    )


def _refused(burdens: dict[str, Burden], limits: Constraints) -> dict[str, str]:
    """The methods that the constraints exclude, and why."""
    return {label: why for label, asked in burdens.items() if (why := refusal(asked, limits)) is not None}


def _outcome(ends: Ends, label: str, verdict: Verdict) -> findings.Outcome:
    """The verdict on a method that the constraints allow."""
    recommended = verdict.recommended
    if ends.diverged(label):
        return "diverged"
    if label in verdict.below_floor:
        return "below the floor"
    if label == recommended:
        return "recommended"
    if verdict.reference is not None and label not in verdict.level:
        if label in verdict.level_on_record:
            return "worse on generated fleets"
        # Worse than the best, but not than the recommended method, which is comparable to the best.
        alike = recommended is not None and not ends.gains(recommended, label, RECORDED)
        return "worse than the best" if alike else "worse"
    if recommended is None:
        return "undecided"
    finished = [s for s in (RECORDED, GENERATED) if not (ends.diverged(label, s) or ends.diverged(recommended, s))]
    unclear = any(ends.inconclusive(label, recommended, setting) for setting in finished)
    return "not significantly different" if unclear else "equivalent"


def _ended(ends: Ends, label: str, setting: str, reference: str | None) -> findings.Ended:
    final, worst = (ends.value(label, setting, column=column) for column in ("final", "worst_decile"))
    if reference is None:
        return findings.Ended(final, worst, None, None)
    kinder = ends.difference(label, reference, setting, column="worst_decile")
    gap = ends.difference(label, reference, setting)
    return findings.Ended(final, worst, None if kinder.mean is None else kinder, gap)


def _relaxed(
    ends: Ends, burdens: dict[str, Burden], limits: Constraints, verdict: Verdict, reference: str
) -> Iterator[findings.Relaxed]:
    """For each constraint: the methods that could be used without it, and the gain of the best of them."""
    refused = _refused(burdens, limits)
    for name, limit in limits._asdict().items():
        if limit is None:
            continue
        freed = set(refused) - set(_refused(burdens, limits._replace(**{name: None})))
        if name == "floor":
            freed |= set(verdict.below_floor)
        among = [method for method in ends.methods if method in freed]
        if case := against(ends, among, reference, RECORDED):
            case = case._replace(changes=ends.gains(case.best, reference, RECORDED))
            yield findings.Relaxed(name, among, case, ends.inconclusive(case.best, reference, RECORDED))


def _served_worst(runs: Runs, reference: str | None) -> list[findings.Device]:
    """The worst-served tenth of the devices under the reference, on the record."""
    own = runs.devices.filter(pl.col("method").eq_missing(reference), pl.col("accuracy").is_finite())
    table = own.sort("accuracy", "client").head(-(-own.height // 10))
    return [findings.Device(*row) for row in table.select(findings.Device._fields).iter_rows()]
