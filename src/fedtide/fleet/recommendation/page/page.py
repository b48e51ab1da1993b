"""The page of `fedtide fleet recommend`: the answer, the numbers behind it, and when it would change."""

import functools

import polars as pl
from markupsafe import Markup

from fedtide import text
from fedtide.fleet.recommendation.findings import Candidate, Findings
from fedtide.fleet.recommendation.limits import readable
from fedtide.fleet.recommendation.page import figures
from fedtide.fleet.recommendation.page.words import changes, details, lead, margin_in_words
from fedtide.report.curves import learning
from fedtide.report.frame import page
from fedtide.statistics import Estimated
from fedtide.tuning.page import values_in_words

_MOST_LISTED = 25


def render(result: Findings, rounds: pl.DataFrame, devices: pl.DataFrame) -> str:
    """The page as text, from `Recommendation`'s data and tables."""
    reference = result.verdict.reference
    far = figures.far(result)
    pictures = {} if reference is None else {
        "forest": figures.forest(result),
        "learning": learning(rounds.filter(~pl.col("method").is_in(far)), reference),
        "served": figures.served(result, devices),
    }  # fmt: skip
    shown = [row.method for row in result.methods if row.method not in far]  # in the order of their colours
    first, *rest = lead(result)
    fleet, problem = result.fleet, f"problem: {text.clean(result.problem.name)}"
    return page(
        "fedtide.fleet.recommendation.page",
        "recommendation.html",
        result=result,
        about={"versions": result.versions},
        title=f"Which method for {text.clean(fleet.source) or 'this fleet'}?",
        meta=[
            text.count(len(result.methods), "method"),
            f"{text.count(fleet.used, 'device')} of {fleet.devices:,}",
            text.count(result.rounds, "round"),
            text.count(result.seeds, "seed"),
            f"{problem} (a stand-in)" if result.problem.stand_in else problem,
        ],
        answer=Markup("<strong>{}</strong> {}").format(first, " ".join(rest)),
        details=details(result),
        figures={name: picture for name, picture in pictures.items() if picture is not None},
        reference=None if reference is None else text.clean(reference),
        rows=_ordered(result),
        curves={name: i for i, name in enumerate(shown)},
        gap=functools.partial(_gap, result),
        far=[text.clean(name) for name in far],
        most=_MOST_LISTED,
        changes=changes(result),
        margin=margin_in_words(result),
        text=text,
        readable=readable,
        values_in_words=values_in_words,
    )


def summary(result: Findings) -> list[tuple[str, ...]]:
    """For the terminal: method, on the record, on generated fleets, difference, worst-served tenth, verdict."""
    return [
        (
            text.clean(row.method), text.value(result.kind, row.recorded.final.mean),
            text.value(result.kind, row.generated.final.mean), text.change(result.kind, _gap(result, row).mean),
            text.percent(row.recorded.worst.mean), row.verdict,
        )
        for row in _ordered(result)
    ]  # fmt: skip


def _gap(result: Findings, row: Candidate) -> Estimated:
    """The difference to the reference on the record; none for the reference itself."""
    return Estimated() if row.method == result.verdict.reference else row.gap()


def _ordered(result: Findings) -> list[Candidate]:
    """The recommended method first, then by result on the record."""
    sign = -1 if result.kind == "accuracy" else 1

    def place(row: Candidate) -> tuple[bool, bool, float]:
        mean = row.recorded.final.mean
        return row.verdict != "recommended", mean is None, sign * (mean or 0.0)

    return sorted(result.methods, key=place)
