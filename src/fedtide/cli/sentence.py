"""What a comparison shows, in one sentence that does not claim more than the numbers do."""

import polars as pl

from fedtide.report import statistics
from fedtide.report.words import clean, count, size, value


def sentence(rounds: pl.DataFrame, clients: int) -> str:
    """Who ends best, who cannot be told from it, how far the rest is (paired differences over seeds), who diverged."""
    summary = statistics.summary(rounds)
    length = rounds["round"].max()
    assert isinstance(length, int)
    methods, fleet = count(len(summary), "method"), count(clients, "client")
    said = _compared(summary, rounds)
    for row in summary.filter((pl.col("diverged") > 0) & (pl.col("seeds") > 0)).iter_rows(named=True):
        said += f"; {clean(row['method'])} diverged on {row['diverged']} of {row['diverged'] + row['seeds']} seeds"
    lost = summary.filter(pl.col("seeds") == 0)["method"].to_list()
    if 0 < len(lost) < len(summary):
        said += f"; {_list(lost)} diverged on every seed"
    return f"{methods} met the same {fleet} coming and going for {count(length, 'round')}: {said}."


def _compared(summary: pl.DataFrame, rounds: pl.DataFrame) -> str:
    kind: statistics.Metric = summary["metric"][0]
    finished = summary.drop_nulls("final").sort("final", descending=kind == "accuracy", maintain_order=True)
    if finished.is_empty():
        return "none finished, as every seed diverged"
    best, *others = finished["method"].to_list()
    what, most = ("test accuracy", "highest") if kind == "accuracy" else ("objective", "lowest")
    final = value(kind, finished["final"][0])
    if not others:
        return f"{clean(best)} ends with {what} {final}"
    reached = f"{clean(best)} ends with the {most} {what}, {final}"
    if finished["seeds"].min() == 1:
        return f"{reached}, but with one seed no difference can be told from chance"
    table = statistics.per_seed(rounds)
    gaps = {other: statistics.paired(table, best, other) for other in others}
    close = [o for o, gap in gaps.items() if gap.low is None or gap.high is None or gap.low <= 0 <= gap.high]
    behind = [o for o in others if o not in close]
    over = f"over {count(finished['seeds'][0], 'seed')}"
    if not behind:
        return f"{reached}, but {over} no other method is clearly behind it: the differences are within the noise"
    far = f"{_list(behind)} {'ends' if len(behind) == 1 else 'end'} {_by(kind, [gaps[o].mean for o in behind])} behind"
    if not close:
        return f"{reached}, and clearly so {over}: {far}"
    return f"{reached}, but {_list(close)} cannot be told from it {over}; {far}"


def _list(names: list[str]) -> str:
    names = [clean(name) for name in names]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _by(kind: statistics.Metric, gaps: list[float | None]) -> str:
    sizes = sorted((size(kind, gap) for gap in gaps if gap is not None), key=lambda text: float(text.split()[0]))
    if len(set(sizes)) == 1:
        return sizes[0]
    return f"{sizes[0].removesuffix(' points')} to {sizes[-1]}"
