"""Numbers as text, and the answer in words."""

import unicodedata
from collections.abc import Mapping
from typing import Any

import polars as pl
from markupsafe import Markup

from fedtide.report import statistics
from fedtide.report.clients import Fleet
from fedtide.report.statistics import Estimated, Metric

NOTHING = "–"


def clean(text: object) -> str:
    """Text on one line, without the control characters that no document may hold."""
    return " ".join("".join(" " if unicodedata.category(c) in ("Cc", "Cs") else c for c in str(text)).split())


def short(text: object, most: int) -> str:
    """Text of at most so many characters: its beginning and its end, which tells variants apart."""
    text = clean(text)
    tail = (most - 1) // 3
    return text if len(text) <= most else text[: most - 1 - tail].rstrip() + "…" + text[len(text) - tail :].lstrip()


def percent(share: float | None, decimals: int = 1) -> str:
    """A share of 1 in percent."""
    return NOTHING if share is None else f"{100 * share:.{decimals}f}%"


def value(kind: Metric, number: float | None) -> str:
    """An accuracy in percent, an objective in four digits."""
    return (
        NOTHING if number is None else percent(number) if kind == "accuracy" else _minus(f"{number:#.4g}".rstrip("."))
    )


def spread(kind: Metric, low: float, high: float) -> str:
    """The ends of an interval of values, without their unit."""
    if kind == "accuracy":
        return f"{100 * low:.1f} to {100 * high:.1f}"
    return _minus(f"{low:.3g} to {high:.3g}")


def change(kind: Metric, number: float | None) -> str:
    """A signed difference: of accuracies in points, of objectives in three digits."""
    if number is None:
        return NOTHING
    text = f"{100 * number:+.2f}" if kind == "accuracy" else f"{number:+.3g}"
    return _minus(text.lstrip("+-") if float(text) == 0 else text)


def size(kind: Metric, number: float) -> str:
    """A difference without its sign, with its unit."""
    return f"{abs(100 * number):.2f} points" if kind == "accuracy" else f"{abs(number):.3g}"


def count(number: int, singular: str, plural: str | None = None) -> str:
    """`1 seed`, `2 seeds`."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def setting(value: object) -> str:
    """A single setting or fact."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else clean(value)


def settings(flat: Mapping[str, object]) -> list[tuple[str, str]]:
    """Settings by dotted names, folded into one line for each part.

    >>> settings({"solver": "Sgd", "solver.rate": 0.1, "solver.work": "Steps", "solver.work.count": 5})
    [('solver', 'Sgd(rate=0.1, work=Steps(count=5))')]
    """

    def fold(name: str) -> str:
        inner = [k for k in flat if k.startswith(f"{name}.") and "." not in k[len(name) + 1 :]]
        inside = ", ".join(f"{clean(k[len(name) + 1 :])}={fold(k)}" for k in inner)
        return setting(flat[name]) + (f"({inside})" if inside else "")

    # A dotted name whose owner is missing stands for itself.
    # Nothing replaced is nothing to show.
    shown = (name for name in flat if name != "replaced" or flat[name] not in ("()", "", None))
    return [(clean(name), fold(name)) for name in shown if name.rpartition(".")[0] not in flat]


def answer(summary: pl.DataFrame, seeds: pl.DataFrame, classes: pl.DataFrame | None, fleet: Fleet | None) -> Markup:
    """Which method ends best, by how much, how sure that is, and who is served worst.

    `seeds` is the table of `statistics.per_seed`, `classes` that of `figures.class_accuracy`.
    """
    rows = {row["method"]: row for row in summary.iter_rows(named=True) if row["final"] is not None}
    if not rows:
        return Markup("No method finished: every seed diverged.")
    kind: Metric = summary["metric"][0]
    ranked = sorted(rows.values(), key=lambda row: -row["final"] if kind == "accuracy" else row["final"])
    best = ranked[0]
    reached = (
        f"{value(kind, best['final'])} test accuracy"
        if kind == "accuracy"
        else f"an objective of {value(kind, best['final'])}"
    )
    base = summary.filter("baseline")["method"][0]
    after = f"after {count(best['round'], 'round')}"
    over = f"averaged over {count(best['seeds'], 'seed')}" if best["seeds"] > 1 else "on one seed"
    name = Markup("<strong>{}</strong>").format(clean(best["method"]))
    if len(summary) == 1:
        said = [Markup("{} reaches {} {}, {}.").format(name, reached, after, over)]
    else:
        said = [Markup("{} ends best: {} {}, {}.").format(name, reached, after, over)]
        against = [base] if base in rows and base != best["method"] else []
        against += [r["method"] for r in ranked[1:2] if r["method"] != base or base == best["method"]]
        gaps = [(other, statistics.paired(seeds, best["method"], other)) for other in against]
        told = [_compared(kind, other, other == base, gap) for other, gap in gaps if gap.mean is not None]
        if told:
            hedge = "" if any(gap.low is not None for _, gap in gaps) else " One seed gives no interval."
            said.append(Markup("It finishes {}.{}").format(Markup(", and ").join(told), hedge))
    if kind == "accuracy":
        said += _served(best, rows, base, classes, fleet)
    for row in summary.filter(pl.col("diverged") > 0).iter_rows(named=True):
        lost = f"{row['diverged']} of {count(row['diverged'] + row['seeds'], 'seed')}"
        said.append(Markup("{} of {} diverged and count nowhere.").format(lost, clean(row["method"])))
    return Markup(" ").join(said)


def _compared(kind: Metric, other: str, is_baseline: bool, gap: Estimated) -> Markup:
    """How the best method stands to another, to follow "It finishes"."""
    assert gap.mean is not None
    who = f"{'the baseline' if is_baseline else 'the runner-up'}, {clean(other)}"
    unit = " points" if kind == "accuracy" else ""
    if gap.low is None or gap.high is None:
        return Markup("{} {} {}").format(size(kind, gap.mean), _side(gap.mean), who)
    if gap.low == gap.high == 0:
        return Markup("exactly where {}, does").format(who)
    spread = f"95% interval {change(kind, gap.low)} to {change(kind, gap.high)}"
    if gap.low <= 0 <= gap.high:
        return Markup("with no clear difference to {} ({}{}; {})").format(who, change(kind, gap.mean), unit, spread)
    return Markup("{} {} {} ({})").format(size(kind, gap.mean), _side(gap.mean), who, spread)


def _served(
    best: dict[str, Any], rows: dict[str, Any], base: str, classes: pl.DataFrame | None, fleet: Fleet | None
) -> list[Markup]:
    """Who is served worst by the best method, and whether another serves them better."""
    said = []
    if classes is not None and fleet is not None and len(fleet.names) > 1:
        mean = classes.group_by("method", "kind").agg(pl.col("accuracy").mean())
        own = mean.filter(pl.col("method") == best["method"]).sort("accuracy", "kind")
        if own.height:
            worst, level = own["kind"][0], own["accuracy"][0]
            there = mean.filter((pl.col("method") == base) & (pl.col("kind") == worst))
            compared = f", against {percent(there['accuracy'][0])} under {clean(base)}" if there.height else ""
            said.append(
                Markup("It serves worst the clients of class “{}”: {} on average{}.").format(
                    clean(fleet.names[worst]).replace(" = ", "\u00a0=\u00a0"),
                    percent(level),
                    "" if base == best["method"] else compared,
                )
            )
    if best["worst_decile"] is not None:
        tenth = f"The worst-served tenth of its clients reaches {percent(best['worst_decile'])}"
        kindest = max((r for r in rows.values() if r["worst_decile"] is not None), key=lambda r: r["worst_decile"])
        more = f"; {clean(kindest['method'])} does most for them, {percent(kindest['worst_decile'])}"
        said.append(Markup("{}{}.").format(tenth, more if kindest["worst_decile"] > best["worst_decile"] else ""))
    return said


def _side(number: float) -> str:
    return ("above" if number > 0 else "below") if number else "from"


def _minus(text: str) -> str:
    return text.replace("-", "−")
