"""The page of `fedtide tune`: what was chosen, and everything that was tried."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from markupsafe import Markup

from fedtide.files import atomic
from fedtide.report import svg, words
from fedtide.report.page import environment
from fedtide.report.statistics import Metric

PANELS = 12  # at most so many maps a method; with more, one map of the best over the rest
DARKEST = 50  # percent of colour in the best cell, so that its text stays legible


class Measure(NamedTuple):
    """What settings are chosen by."""

    column: str  # of the table of trials
    words: str
    kind: Metric  # how its numbers are written
    highest: bool  # whether more is better


MEASURES = {
    "accuracy": Measure("validation_accuracy", "validation accuracy", "accuracy", True),
    "worst_decile": Measure(
        "validation_worst_decile", "validation accuracy of the worst-served tenth of the clients", "accuracy", True
    ),
    "loss": Measure("validation_loss", "validation loss", "objective", False),
    "objective": Measure("objective", "training objective", "objective", False),
    "tail_loss": Measure("tail_loss", "training loss of the worst tenth of the clients", "objective", False),
}
"""By their names in configurations."""


class Trial(NamedTuple):
    """One setting of a method, over all seeds."""

    number: int
    values: dict[str, Any]
    score: float | None  # None where a seed diverged
    by_seed: list[float | None]
    rank: int | None  # 1 is the chosen one


class Outcome(NamedTuple):
    """One method's trials."""

    method: str
    arguments: list[str]  # what was tried at several values or fixed by a list
    trials: list[Trial]
    note: str  # how the trials were picked

    @property
    def ranked(self) -> list[Trial]:
        """From the chosen one on; those that diverged come last."""
        return sorted(self.trials, key=lambda t: (t.rank is None, t.rank or 0, t.number))

    @property
    def chosen(self) -> Trial | None:
        """None where every trial diverged."""
        best = self.ranked[0]
        return best if best.rank is not None else None

    @property
    def diverged(self) -> int:
        return sum(trial.score is None for trial in self.trials)

    @property
    def edges(self) -> list[str]:
        """Which chosen numbers are the ends of what was tried: "rate = 0.5 is the largest tried"."""
        said = []
        for name in self.arguments if self.chosen else ():
            tried = {trial.values[name] for trial in self.trials}
            if len(tried) < 2 or not all(_is_number(value) for value in tried):
                continue
            value = self.chosen.values[name]  # pyright: ignore[reportOptionalMemberAccess]
            end = "smallest" if value == min(tried) else "largest" if value == max(tried) else None
            if end:
                said.append(f"{name} = {words.setting(value)} is the {end} tried")
        return said


def outcomes(trials: pl.DataFrame, about: Mapping[str, Any]) -> list[Outcome]:
    """The table of trials, method by method."""
    column = MEASURES[about["select"]].column
    found = []
    for label, arguments in about["arguments"].items():
        own = []
        for (number,), rows in trials.filter(method=label).group_by("trial", maintain_order=True):
            first = rows.row(0, named=True)
            by_seed = [None if lost else x for lost, x in rows.select("diverged", column).iter_rows()]
            values = {name: first[name] for name in arguments}
            own.append(Trial(int(str(number)), values, first["score"], by_seed, first["rank"]))
        found.append(Outcome(label, list(arguments), own, about["notes"][label]))
    return found


def values_in_words(values: Mapping[str, Any]) -> str:
    """`rate = 0.1, server_rate = 3`."""
    return ", ".join(f"{name} = {words.setting(value)}" for name, value in values.items()) or "nothing to set"


def sentence(outcome: Outcome, measure: Measure) -> str:
    """What won, by how much, and what was lost."""
    if outcome.chosen is None:
        return f"Every one of the {words.count(len(outcome.trials), 'trial')} diverged: try smaller rates."
    reached = words.value(measure.kind, outcome.chosen.score)
    said = f"{values_in_words(outcome.chosen.values)}: {reached} {measure.words}"
    second = next((t for t in outcome.ranked[1:] if t.score is not None), None)
    if second is not None:
        gap = abs(second.score - outcome.chosen.score)  # pyright: ignore[reportOperatorIssue]
        side = "above" if measure.highest else "below"
        apart = f"{words.size(measure.kind, gap)} {side}" if gap else "as good as"
        said += f", {apart} the next best of {words.count(len(outcome.trials), 'trial')}"
    if outcome.diverged:
        said += f"; {outcome.diverged} diverged"
    return said + "."


def advice(outcome: Outcome) -> str:
    """What to do where a chosen number is the end of its list."""
    return f"{', '.join(outcome.edges)}: widen the {'list' if len(outcome.edges) == 1 else 'lists'}."


def warnings(found: list[Outcome], about: Mapping[str, Any]) -> list[str]:
    """What a reader should do something about."""
    said = [words.clean(text) for text in about.get("warnings") or []]
    for outcome in found:
        if outcome.chosen is None:
            said.append(f"{words.clean(outcome.method)}: every trial diverged, so it is kept as it was written.")
        if outcome.edges:
            said.append(f"{words.clean(outcome.method)}: {advice(outcome)}")
    return said


class Cell(NamedTuple):
    """A cell of a map."""

    text: str
    kind: str  # tried, lost (diverged) or untried
    shade: int = 0  # percent of colour
    best: bool = False


class Panel(NamedTuple):
    """A map for one choice of the other arguments."""

    title: str
    rows: list[tuple[str, list[Cell]]]


class Map(NamedTuple):
    """All trials of a method: down × across, a panel for each choice of the rest."""

    down: str  # "" for a single row
    across: str
    columns: list[str]
    panels: list[Panel]
    note: str


def heat_map(outcome: Outcome, measure: Measure) -> Map | None:
    """The trials as a map; None where nothing was varied."""
    tried = {name: _in_order({t.values[name] for t in outcome.trials}) for name in outcome.arguments}
    varied = [name for name, values in tried.items() if len(values) > 1]
    if not varied:
        return None
    down, across, *rest = varied if len(varied) > 1 else ("", varied[0])
    combinations = sorted({tuple(tried[n].index(t.values[n]) for n in rest) for t in outcome.trials})
    note = ""
    if len(combinations) > PANELS:
        note = f" A cell is the best over {', '.join(rest)}; the table below has each."
        rest, combinations = [], [()]
    shade = _shades(outcome, measure)
    panels = []
    for combination in combinations:
        fixed = {name: tried[name][at] for name, at in zip(rest, combination, strict=True)}
        rows = []
        for row in tried[down] if down else [None]:
            cells = []
            for column in tried[across]:
                wanted = {**fixed, across: column, **({down: row} if down else {})}
                here = [t for t in outcome.ranked if all(t.values[n] == v for n, v in wanted.items())]
                cells.append(_cell(here[0] if here else None, measure, shade))
            rows.append((words.setting(row) if down else "", cells))
        panels.append(Panel(values_in_words(fixed) if fixed else "", rows))
    return Map(down, across, [words.setting(v) for v in tried[across]], panels, note)


def render(trials: pl.DataFrame, about: Mapping[str, Any]) -> str:
    """The page as text."""
    measure = MEASURES[about["select"]]
    found = outcomes(trials, about)
    sections = [
        {
            "name": words.clean(outcome.method),
            "chosen": values_in_words(outcome.chosen.values) if outcome.chosen else "–",
            "score": words.value(measure.kind, outcome.chosen.score) if outcome.chosen else "–",
            "next": words.value(measure.kind, outcome.ranked[1].score) if len(outcome.trials) > 1 else "–",
            "diverged": outcome.diverged,
            "sentence": sentence(outcome, measure),
            "edges": outcome.edges,
            "note": outcome.note,
            "map": heat_map(outcome, measure),
            "arguments": outcome.arguments,
            "trials": [_row(trial, measure) for trial in outcome.ranked],
        }
        for outcome in found
    ]
    return environment().get_template("tuning.html").render(
        about=about,
        title=words.clean(about.get("title") or "Tuning"),
        meta=_meta(about, len(found)),
        answer=_answer(found, measure, about),
        measure=measure,
        how=how(about),
        sections=sections,
        warnings=warnings(found, about),
        seeds=about["seeds"],
        palette=[svg.LIGHT, svg.DARK],
        paper=svg.PAPER,
    )  # fmt: skip


def write(path: str | os.PathLike[str], trials: pl.DataFrame, about: Mapping[str, Any]) -> Path:
    """Writes the page; a reader finds the old file or the whole new one, never a part."""
    path = Path(path)
    text = render(trials, about)
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def how(about: Mapping[str, Any]) -> str:
    """By what the settings were chosen, in a sentence."""
    measure, late, evaluations = MEASURES[about["select"]], about["late"], about["evaluations"]
    window = "at the last evaluation" if late == 1 else f"over the last {late} of {evaluations} evaluations"
    said = f"The best {measure.words}, averaged over {words.count(len(about['seeds']), 'seed')} and {window}"
    if late == 1:
        said = f"The best {measure.words} {window}, averaged over {words.count(len(about['seeds']), 'seed')}"
    if about.get("validation"):
        share = words.percent(about["validation"], 0)
        said += f", on {share} of every client's training samples, which no trial trained on"
    return f"{said}. A trial that diverges under any seed is worst. Test data are not looked at."


def _meta(about: Mapping[str, Any], methods: int) -> list[str]:
    facts = [
        words.count(methods, "method"),
        f"{words.count(about['trials'], 'trial')} each",
        words.count(len(about["seeds"]), "seed"),
        words.count(about["rounds"], "round"),
    ]
    return [*facts, *(f"{kind}: {words.clean(about[kind]['name'])}" for kind in ("problem", "availability"))]


def _answer(found: list[Outcome], measure: Measure, about: Mapping[str, Any]) -> Markup:
    done = [outcome for outcome in found if outcome.chosen is not None]
    if not done:
        return Markup("No method could be tuned: every trial diverged.")
    sign = -1 if measure.highest else 1
    best = min(done, key=lambda o: sign * o.chosen.score)  # pyright: ignore
    score = words.value(measure.kind, best.chosen.score)  # pyright: ignore[reportOptionalMemberAccess]
    most = "highest" if measure.highest else "lowest"
    trials = words.count(about["trials"], "trial")
    name = Markup("<strong>{}</strong>").format(words.clean(best.method))
    settings = values_in_words(best.chosen.values).replace(" = ", "\u00a0=\u00a0")  # pyright: ignore
    if len(found) == 1:
        said = [Markup("Of {}, {} does best with {}: {} {}.").format(trials, name, settings, score, measure.words)]
    else:
        said = [
            Markup("Every method got {}. Tuned, {} has the {} {}, {}, with {}.").format(
                trials, name, most, measure.words, score, settings
            )
        ]
    if about["trials"] > 1:
        said.append(
            Markup(
                "The best of {} looks better than it is: compare by <code>fedtide run</code>, on other seeds."
            ).format(trials)
        )
    edges = [outcome for outcome in found if outcome.edges]
    if edges:
        said.append(Markup("{} at the edge of a list.").format(_lie(edges, found)))
    return Markup(" ").join(said)


def _lie(some: list[Outcome], found: list[Outcome]) -> str:
    if len(found) == 1:
        return "It lies"
    names = [words.clean(outcome.method) for outcome in some]
    if len(names) > 4:
        return f"The settings of {len(names)} of {len(found)} methods lie"
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"The settings of {listed} lie"


def _row(trial: Trial, measure: Measure) -> dict[str, Any]:
    return {
        "rank": trial.rank,
        "values": [words.setting(value) for value in trial.values.values()],
        "score": "diverged" if trial.score is None else words.value(measure.kind, trial.score),
        "by_seed": ["×" if x is None else _bare(measure, x) for x in trial.by_seed],
    }


def _cell(trial: Trial | None, measure: Measure, shade: Mapping[int, int]) -> Cell:
    if trial is None:
        return Cell("", "untried")
    if trial.score is None:
        return Cell("×", "lost")
    return Cell(_bare(measure, trial.score), "tried", shade[trial.number], trial.rank == 1)


def _shades(outcome: Outcome, measure: Measure) -> dict[int, int]:
    """Percent of colour for each trial: from the best down to three times the median's distance from it."""
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
    return f"{100 * number:.1f}" if measure.kind == "accuracy" else f"{number:.3g}".replace("-", "−")


def _in_order(values: set[Any]) -> list[Any]:
    return sorted(values, key=lambda v: (not _is_number(v), v if _is_number(v) else str(v)))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
