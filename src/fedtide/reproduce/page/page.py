"""The page of `fedtide reproduce`: claims with verdicts, figures, all numbers, and how the study was run."""

from collections.abc import Sequence
from typing import NamedTuple

from fedtide import text as words
from fedtide.report.frame import Cell, page
from fedtide.reproduce.claims import Judged, in_words
from fedtide.reproduce.page import words as phrases
from fedtide.reproduce.page.figures import pictures, slim
from fedtide.reproduce.page.panels import PlottedMethod, rows
from fedtide.reproduce.results import MEASURES, CaseResult, Level, Results, RunMeasure
from fedtide.reproduce.study import Study


class _Table(NamedTuple):
    """All measures of the methods of a case."""

    title: str
    columns: list[str]
    rows: list[tuple[PlottedMethod, list[Cell]]]
    diverged: bool


def render(study: Study, results: Results, claims: Sequence[Judged]) -> str:
    """The page as HTML, from a study, the results of `reproduce` and the verdicts of `judge`."""
    figures = {
        name: picture._replace(wide=slim(picture.wide), narrow=slim(picture.narrow))
        for name, picture in pictures(study, results).items()
    }
    methods = {method.label for case in results.cases for method in case.methods}
    headings, settings = phrases.chosen(results)
    return page(
        "fedtide.reproduce.page",
        "reproduction.html",
        about={"versions": results.versions, "command": results.command},
        title=f"{words.clean(study.figure)}: {words.clean(study.title)}",
        meta=[
            words.count(len(methods), "method"),
            words.count(len(results.cases), "case"),
            f"scale: {results.scale}",
            f"took {words.rounded_duration(results.seconds)}",
        ],
        answer=phrases.answer(claims),
        text=[" ".join(part.split()) for part in study.about.strip().split("\n\n")],
        figures=figures,
        claims=claims,
        phrases=phrases,
        rule=in_words,
        tables=[_table(study, case) for case in results.cases],
        how=phrases.how(results),
        headings=headings,
        settings=settings,
        warnings=phrases.warnings(results),
    )


def _table(study: Study, case: CaseResult) -> _Table:
    columns = []
    for name, measure in MEASURES.items():
        levels = [case.level(method, name) for method in case.methods] if measure.column else []
        if any(level is not None for level in levels):
            columns.append((measure, _cells(name == "spread", measure, levels)))
    lines = [(row, [cells[i] for _, cells in columns]) for i, row in enumerate(rows(study, case))]
    headings = [measure.column for measure, _ in columns]
    return _Table(words.clean(case.label), headings, lines, any(any(method.diverged) for method in case.methods))


def _cells(fine: bool, measure: RunMeasure, levels: Sequence[Level | None]) -> list[Cell]:
    """A column with its best value marked; `fine` adds a digit."""
    means = [level.mean for level in levels if level is not None]
    best = max(means) if measure.highest else min(means)
    cells = []
    for level in levels:
        if level is None:
            cells.append(Cell(words.NOTHING))
            continue
        text, spread = words.value(measure.kind, level.mean), None
        if level.low is not None and level.high is not None:
            spread = words.spread(measure.kind, level.low, level.high)
        if fine:
            text = f"{100 * level.mean:.2f}"
            spread = spread and f"{100 * level.ends[0]:.2f} to {100 * level.ends[1]:.2f}"
        cells.append(Cell(text, spread, level.mean == best))
    return cells
