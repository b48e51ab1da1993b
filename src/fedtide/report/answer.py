"""The result of a run in words: which method ends best, by how much, and which clients it serves worst."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from markupsafe import Markup

from fedtide import summaries
from fedtide.report.clients import RecordedClients
from fedtide.statistics import Estimated, Metric
from fedtide.text import change, clean, count, listed, percent, size, unbroken, value


def answer(
    summary: pl.DataFrame,
    seeds: pl.DataFrame,
    classes: pl.DataFrame | None = None,
    fleet: RecordedClients | None = None,
    excluded: Mapping[str, float] | None = None,
) -> Markup:
    """Which method ends best, by how much, which others are not significantly different, and which clients it serves
    worst.

    `seeds` is the table of `summaries.per_seed`, `classes` that of `classes.class_accuracy`, `excluded` the result of
    `excluded_shares`.
    """
    rows = {row["method"]: row for row in summary.iter_rows(named=True) if row["final"] is not None}
    if not rows:
        return Markup("No method finished: every seed diverged.")
    kind: Metric = summary["metric"][0]
    ranked = sorted(rows, key=lambda method: rows[method]["final"], reverse=kind == "accuracy")
    best = rows[ranked[0]]
    name = Markup("<strong>{}</strong>").format(clean(best["method"]))
    after = f"after {count(best['round'], 'round')}"
    over = f"averaged over {count(best['seeds'], 'seed')}" if best["seeds"] > 1 else "on one seed"
    base = summary.filter("baseline")["method"][0]
    what, most = ("test accuracy", "highest") if kind == "accuracy" else ("objective", "lowest")
    final = value(kind, best["final"])
    one = f"reaches {'a' if kind == 'accuracy' else 'an'} {what} of {final}"
    claim = one if len(summary) == 1 else f"has the {most} {what}: {final}"
    sentences = [Markup("{} {} {}, {}.").format(name, claim, after, over)]
    sentences += _compared(kind, ranked, base, seeds)
    if kind == "accuracy":
        sentences += _served(best, rows, base, classes, fleet)
    sentences += [_exclusion(method, share) for method, share in (excluded or {}).items()]
    for row in summary.filter(pl.col("diverged") > 0).iter_rows(named=True):
        lost = f"{row['diverged']} of {count(row['diverged'] + row['seeds'], 'seed')}"
        sentences.append(Markup("{} of {} diverged and are excluded.").format(lost, clean(row["method"])))
    return Markup(" ").join(sentences)


def excluded_shares(rounds: pl.DataFrame, about: Mapping[str, Any]) -> dict[str, float]:
    """The share of the available clients, over all rounds and seeds, that a correlation-aware method did not invite.

    Only of methods that invite everyone whom they do not exclude, which is seen from their settings.
    """
    settings = {method["label"]: method.get("settings", {}) for method in about.get("methods", [])}
    aware = [label for label, own in settings.items() if own.get("participation") == "CorrelationAware"]
    counts = rounds.filter(pl.col("method").is_in(aware)).group_by("method", maintain_order=True)
    sums = counts.agg(pl.col("available", "invited").sum())
    return {method: 1 - invited / available for method, available, invited in sums.iter_rows() if available}


def _exclusion(method: str, share: float) -> Markup:
    if share:
        part = percent(share) if share >= 0.0005 else "less than 0.1%"
        return Markup("{} excluded {} of the available clients, over all rounds.").format(clean(method), part)
    told = "{} excluded nobody: it invited every available client in every round, as Unbiased does."
    return Markup(told).format(clean(method))


def _compared(kind: Metric, ranked: Sequence[str], base: str, seeds: pl.DataFrame) -> list[Markup]:
    """The best method against the baseline and the runner-up, and which others are not significantly different."""
    best, *others = ranked
    gaps = {other: summaries.paired(seeds, best, other) for other in others}
    named = {other: "the baseline" if other == base else "the runner-up" for other in (base, *others[:1])}
    compared = [_against(kind, named[o], o, gaps[o]) for o in named if o in gaps and gaps[o].mean is not None]
    sentences = [Markup("It is {}.").format(Markup(", and ").join(compared))] if compared else []
    if compared and all(gap.low is None for gap in gaps.values()):
        return [*sentences, Markup("One seed gives no interval: differences may be due to chance.")]
    close = [clean(o) for o, gap in gaps.items() if o not in named and not gap.apart]
    if close:
        sentences.append(Markup("Not significantly different from it: {}.").format(listed(close)))
    return sentences


def _against(kind: Metric, role: str, other: str, gap: Estimated) -> Markup:
    """The best method against another one, to follow "It is"."""
    assert gap.mean is not None
    other = f"{role}, {clean(other)}"
    above = f"{size(kind, gap.mean)} {'above' if gap.mean > 0 else 'below'}"
    if gap.low is None or gap.high is None:
        return Markup("{} {}").format(above if gap.mean else "equal to", other)
    if gap.low == gap.high == 0:
        return Markup("equal to {}").format(other)
    interval = f"95% interval {change(kind, gap.low)} to {change(kind, gap.high)}"
    if gap.apart:
        return Markup("{} {} ({})").format(above, other, interval)
    mean = f"{change(kind, gap.mean)}{' points' if kind == 'accuracy' else ''}"
    return Markup("not significantly different from {} ({}; {})").format(other, mean, interval)


def _served(
    best: dict[str, Any], rows: dict[str, Any], base: str, classes: pl.DataFrame | None, fleet: RecordedClients | None
) -> list[Markup]:
    """Which clients the best method serves worst, and whether another method serves them better."""
    sentences = []
    if classes is not None and fleet is not None and len(fleet.names) > 1:
        mean = classes.group_by("method", "kind").agg(pl.col("accuracy").mean())
        own = mean.filter(pl.col("method") == best["method"]).sort("accuracy", "kind")
        if own.height:
            worst, level = own["kind"][0], own["accuracy"][0]
            there = mean.filter((pl.col("method") == base) & (pl.col("kind") == worst))
            compared = f", against {percent(there['accuracy'][0])} under {clean(base)}" if there.height else ""
            sentences.append(
                Markup("It serves clients of class “{}” worst: {} on average{}.").format(
                    unbroken(clean(fleet.names[worst])),
                    percent(level),
                    "" if base == best["method"] else compared,
                )
            )
    if best["worst_decile"] is not None:
        tenth = f"The worst-served tenth of its clients reaches {percent(best['worst_decile'])}"
        kindest = max((r for r in rows.values() if r["worst_decile"] is not None), key=lambda r: r["worst_decile"])
        more = f"; {clean(kindest['method'])} reaches the most for them, {percent(kindest['worst_decile'])}"
        sentences.append(Markup("{}{}.").format(tenth, more if kindest["worst_decile"] > best["worst_decile"] else ""))
    return sentences
