"""The summary as a table for the terminal and as Markdown."""

from html import escape
from typing import TYPE_CHECKING, Any

import polars as pl

from fedtide.text import change, clean, percent, value

if TYPE_CHECKING:
    from rich.table import Table


def columns(summary: pl.DataFrame) -> dict[str, list[str]]:
    """The cells as text, by heading. The headings depend on the metric and on the runs."""
    kind, rows = summary["metric"][0], summary.rows(named=True)
    table = {
        "Method": [clean(row["method"]) for row in rows],
        f"Final {kind}": [value(kind, row["final"]) for row in rows],
        "Time average": [value(kind, row["average"]) for row in rows],
    }
    if kind == "accuracy":
        table["Worst decile"] = [percent(row["worst_decile"]) for row in rows]
        table["Objective"] = [value("objective", row["objective"]) for row in rows]
    if len(rows) > 1:
        base = clean(summary.filter("baseline")["method"][0])
        heading = f"vs {base}, points" if kind == "accuracy" else f"vs {base}"
        table[heading] = ["baseline" if row["baseline"] else _difference(row) for row in rows]
    if summary["diverged"].sum() > 0:
        of = [(row["diverged"], row["diverged"] + row["seeds"]) for row in rows]
        table["Diverged"] = [f"{lost} of {every}" if lost else "0" for lost, every in of]
    return table


def rich_table(summary: pl.DataFrame) -> "Table":
    """The summary as a `rich.table.Table`."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))  # fits in 80 columns
    cells = columns(summary)
    for n, (name, texts) in enumerate(cells.items()):
        widest = max(map(len, (*name.split(), *texts)))  # headings wrap, cells do not
        table.add_column(Text(name), justify="right" if n else "left", width=widest)
    final = summary["final"]
    best = final.arg_max() if summary["metric"][0] == "accuracy" else final.arg_min()  # None where no run finished
    for n, row in enumerate(zip(*cells.values(), strict=True)):
        table.add_row(*(Text(cell, style="bold" if n == best and c < 2 else "") for c, cell in enumerate(row)))
    return table


def markdown(summary: pl.DataFrame) -> str:
    """The summary as a Markdown table."""
    cells = columns(summary)
    lines = [cells, ["---"] + ["---:"] * (len(cells) - 1), *zip(*cells.values(), strict=True)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def html(summary: pl.DataFrame) -> str:
    """The summary as an HTML table."""
    cells = columns(summary)
    rows = ["".join(f"<td>{escape(cell)}</td>" for cell in line) for line in zip(*cells.values(), strict=True)]
    heading = "".join(f"<th>{escape(name)}</th>" for name in cells)
    return f"<table><tr>{heading}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def _difference(row: dict[str, Any]) -> str:
    kind, low, high = row["metric"], row["difference_low"], row["difference_high"]
    mean = change(kind, row["difference"])
    return mean if low is None else f"{mean} [{change(kind, low)}, {change(kind, high)}]"
