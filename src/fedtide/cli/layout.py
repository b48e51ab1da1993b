"""Tables and text on the terminal."""

from typing import Any

from rich.console import Console
from rich.table import Table


def columns(*headings: str) -> Table:
    """An empty table of plain columns; without headings where they are empty."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=any(headings))
    for i, heading in enumerate(headings):
        table.add_column(heading, no_wrap=i == 0)
    return table


def show(*lines: Any) -> None:
    """Prints texts (with rich's markup) and tables, each on its own lines."""
    console = Console(highlight=False)
    for line in lines:
        console.print(line)
