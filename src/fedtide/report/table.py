"""The summary as a table for the terminal and as Markdown."""

from typing import TYPE_CHECKING, Any

import polars as pl

from fedtide.report.words import change, clean, percent, value

if TYPE_CHECKING:
    from rich.table import Table


def columns(summary: pl.DataFrame) -> list[str]:
    """The headings, which follow the metric and what the runs hold."""
    accuracy = summary["metric"][0] == "accuracy"
    names = ["Method", "Final accuracy", "Time average"] if accuracy else ["Method", "Final objective", "Time average"]
    if accuracy:
        names += ["Worst decile", "Objective"]
    if len(summary) > 1:
        base = clean(summary.filter("baseline")["method"][0])
        names += [f"vs {base}, points" if accuracy else f"vs {base}"]
    if summary["diverged"].sum() > 0:
        names += ["Diverged"]
    return names


def rows(summary: pl.DataFrame) -> list[list[str]]:
    """The cells as text, under `columns`."""
    accuracy = summary["metric"][0] == "accuracy"
    out = []
    for row in summary.iter_rows(named=True):
        cells = [clean(row["method"]), value(row["metric"], row["final"]), value(row["metric"], row["average"])]
        if accuracy:
            cells += [percent(row["worst_decile"]), value("objective", row["objective"])]
        if len(summary) > 1:
            cells += ["baseline" if row["baseline"] else _difference(row)]
        if summary["diverged"].sum() > 0:
            cells += [f"{row['diverged']} of {row['diverged'] + row['seeds']}" if row["diverged"] else "0"]
        out.append(cells)
    return out


def rich_table(summary: pl.DataFrame) -> "Table":
    """The summary as a `rich.table.Table`."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    found, body = best(summary), rows(summary)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))  # 80 columns hold it
    for n, name in enumerate(columns(summary)):
        widest = max(
            len(text) for text in (*name.split(), *(cells[n] for cells in body))
        )  # headings wrap, cells do not
        table.add_column(Text(name), justify="right" if n else "left", width=widest)
    for n, cells in enumerate(body):
        table.add_row(*(Text(cell, style="bold" if n == found and c < 2 else "") for c, cell in enumerate(cells)))
    return table


def markdown(summary: pl.DataFrame) -> str:
    """The summary as a Markdown table."""
    names = columns(summary)
    lines = [names, ["---"] + ["---:"] * (len(names) - 1), *rows(summary)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def best(summary: pl.DataFrame) -> int | None:
    """The row that ends best; None where no run finished."""
    final = summary["final"]
    return final.arg_max() if summary["metric"][0] == "accuracy" else final.arg_min()


def _difference(row: dict[str, Any]) -> str:
    kind, low, high = row["metric"], row["difference_low"], row["difference_high"]
    mean = change(kind, row["difference"])
    return mean if low is None else f"{mean} [{change(kind, low)}, {change(kind, high)}]"
