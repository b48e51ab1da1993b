"""The page of `fedtide tune`: the chosen settings and all trials."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl
from markupsafe import Markup

from fedtide import text as words
from fedtide.report.frame import page
from fedtide.simulation import describe
from fedtide.tuning.plan import Plan
from fedtide.tuning.space import is_number
from fedtide.tuning.trials import Measure, MethodTrials, Trial, final_window, outcomes

PANELS = 12  # maps per method at most; otherwise one map with the best over the other arguments
DARKEST = 50  # percent of colour in the best cell, so that its text is legible


def values_in_words(values: Mapping[str, Any]) -> str:
    """`rate = 0.1, server_rate = 3`."""
    return ", ".join(f"{name} = {words.setting(value)}" for name, value in values.items()) or "no settings"


def sentence(outcome: MethodTrials, measure: Measure) -> str:
    """The chosen settings, their advantage, and how many trials diverged."""
    trials = words.count(len(outcome.trials), "trial")
    scores = [trial.score for trial in outcome.ranked if trial.score is not None]
    if not scores:
        return f"All {trials} diverged: try smaller rates."
    result = f"{values_in_words(outcome.ranked[0].values)}: {words.value(measure.kind, scores[0])} {measure.words}"
    if len(scores) > 1:
        gap = abs(scores[1] - scores[0])
        side = "above" if measure.highest else "below"
        result += f", {f'{words.size(measure.kind, gap)} {side}' if gap else 'equal to'} the second best of {trials}"
    if outcome.diverged:
        result += f"; {outcome.diverged} diverged"
    return result + "."


def advice(outcome: MethodTrials) -> str:
    """What to do where a chosen number is at the end of its list."""
    return f"{', '.join(outcome.edges)}: extend the {'list' if len(outcome.edges) == 1 else 'lists'}."


def warnings(plan: Plan, methods: Sequence[MethodTrials]) -> list[str]:
    """Notes that call for action."""
    notes = [words.clean(plan.note)] if plan.note else []
    for outcome in methods:
        if outcome.chosen is None:
            notes.append(f"{words.clean(outcome.method)}: every trial diverged; its settings are left unchanged.")
        if outcome.edges:
            notes.append(f"{words.clean(outcome.method)}: {advice(outcome)}")
    return notes


class Panel(NamedTuple):
    """A map for one combination of the other arguments."""

    title: str
    rows: list[tuple[str, list[Trial | None]]]  # None where a combination was not tried


class Map(NamedTuple):
    """All trials of a method: down × across, one panel for each combination of the other arguments."""

    down: str  # "" for a single row
    across: str
    columns: list[str]
    panels: list[Panel]
    shades: dict[int, int]  # percent of colour, by number of the trial
    note: str


def heat_map(outcome: MethodTrials, measure: Measure) -> Map | None:
    """The trials as a map; None where nothing was varied."""
    tried = {name: _in_order({t.values[name] for t in outcome.trials}) for name in outcome.arguments}
    varied = [name for name, values in tried.items() if len(values) > 1]
    if not varied:
        return None
    down, across, *rest = varied if len(varied) > 1 else ("", varied[0])
    combinations = sorted({tuple(tried[n].index(t.values[n]) for n in rest) for t in outcome.trials})
    note = ""
    if len(combinations) > PANELS:
        note = f" Each cell shows the best over {', '.join(rest)}; the table below lists all trials."
        rest, combinations = [], [()]
    best: dict[tuple[Any, ...], Trial] = {}
    for trial in outcome.ranked:
        best.setdefault(tuple(trial.values.get(name) for name in (*rest, down, across)), trial)
    panels = []
    for combination in combinations:
        fixed = {name: tried[name][at] for name, at in zip(rest, combination, strict=True)}
        rows = []
        for row in tried.get(down, [None]):
            cells = [best.get((*fixed.values(), row, column)) for column in tried[across]]
            rows.append((words.setting(row) if down else "", cells))
        panels.append(Panel(values_in_words(fixed) if fixed else "", rows))
    return Map(down, across, [words.setting(v) for v in tried[across]], panels, _shades(outcome, measure), note)


def render(plan: Plan, trials: pl.DataFrame, chosen: str, seconds: float, command: str | None) -> str:
    """The page as text; `chosen` is the chosen configuration."""
    config, measure, methods = plan.config, plan.measure, outcomes(plan.spaces, plan.measure, trials)
    return page(
        "fedtide.tuning",
        "tuning.html",
        figures={},
        about={"versions": describe.versions()},
        hardware=describe.hardware(),
        seconds=seconds,
        command=command,
        plan=plan,
        tuned=config.origin.text,
        chosen=chosen,
        title=words.clean(config.title or config.origin.source or "Tuning"),
        meta=[
            words.count(len(methods), "method"),
            f"{words.count(config.tune.trials, 'trial')} each",
            words.count(len(plan.seeds), "seed"),
            words.count(plan.rounds, "round"),
            f"problem: {words.clean(config.problem.name)}",
            f"availability: {words.clean(config.availability.name)}",
        ],
        answer=_answer(plan, methods),
        measure=measure,
        how=how(plan),
        outcomes=methods,
        sentences=[sentence(outcome, measure) for outcome in methods],
        maps=[heat_map(outcome, measure) for outcome in methods],
        warnings=[words.unbroken(note) for note in warnings(plan, methods)],
        values_in_words=values_in_words,
        value=words.value,
        bare=_bare,
    )


def how(plan: Plan) -> str:
    """How the settings were chosen."""
    config, measure, seeds = plan.config, plan.measure, words.count(len(plan.seeds), "seed")
    evaluations = -(-plan.rounds // config.run.evaluate_every)
    final = final_window(evaluations)
    result = f"The best {measure.words}, averaged over {seeds} and over the last {final} of {evaluations} evaluations"
    if final == 1:
        result = f"The best {measure.words} at the last evaluation, averaged over {seeds}"
    if measure.held_out:
        share = words.percent(config.tune.validation, 0)
        result += f", on {share} of every client's training samples, which no trial trained on"
    return f"{result}. A trial that diverges under any seed is ranked last. Test data are not used."


def _answer(plan: Plan, methods: Sequence[MethodTrials]) -> Markup:
    measure, trials = plan.measure, plan.config.tune.trials
    finished = [(trial.score, outcome) for outcome in methods if (trial := outcome.chosen) and trial.score is not None]
    if not finished:
        return Markup("No method could be tuned: every trial diverged.")
    sign = -1 if measure.highest else 1
    score, best = min(finished, key=lambda pair: sign * pair[0])
    settings = words.unbroken(values_in_words(best.chosen.values if best.chosen else {}))
    if len(methods) == 1:
        result = "Of {trials}, the best for <strong>{name}</strong> is {settings}: {score} {measure}."
    else:
        result = "Every method got {trials}. After tuning, <strong>{name}</strong> has the {most} {measure}, {score}, "
        result += "with {settings}."
    if trials > 1:
        result += (
            " The score of the best of {trials} is optimistic: compare with <code>fedtide run</code>, on other seeds."
        )
    edges = [words.clean(outcome.method) for outcome in methods if outcome.edges]
    if edges:
        result += f" {'This is' if len(methods) == 1 else 'The settings of {edges} are'} at the edge of a list."
    return Markup(result).format(
        trials=words.count(trials, "trial"),
        name=words.clean(best.method),
        settings=settings,
        score=words.value(measure.kind, score),
        measure=measure.words,
        most="highest" if measure.highest else "lowest",
        edges=words.listed(edges) if 1 <= len(edges) <= 4 else f"{len(edges)} of {len(methods)} methods",
    )


def _shades(outcome: MethodTrials, measure: Measure) -> dict[int, int]:
    """Percent of colour per trial, from the best down to three times the median distance from it."""
    sign = 1 if measure.highest else -1
    scores = {t.number: sign * t.score for t in outcome.trials if t.score is not None}
    if not scores:
        return {}
    best, ordered = max(scores.values()), sorted(scores.values())
    reach = min(best - ordered[0], 3 * (best - ordered[len(ordered) // 2])) or best - ordered[0] or 1.0
    near = {number: max(0.0, 1 - (best - score) / reach) for number, score in scores.items()}
    return {number: round(4 + (DARKEST - 4) * x**1.6) for number, x in near.items()}


def _bare(measure: Measure, number: float) -> str:
    """A score without its unit."""
    return f"{100 * number:.1f}" if measure.kind == "accuracy" else words.number(number, ".3g")


def _in_order(values: set[Any]) -> list[Any]:
    return sorted(values, key=lambda v: (not is_number(v), v if is_number(v) else str(v)))
