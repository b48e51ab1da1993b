"""The command `list`: the runs below a folder."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from fedtide.cli.faults import explained
from fedtide.cli.layout import Argument, columns, show
from fedtide.errors import FedtideError


def list_runs(
    folder: Annotated[Path, Argument(metavar="[DIR]", help="Folder to search, with all folders in it.")] = Path("runs"),
) -> None:
    """List the runs in a folder (by default runs): their state, methods and length.

    \b
    Examples:
      fedtide list
      fedtide list /data/experiments
    """
    with explained():
        from fedtide.text import clean

        if not folder.is_dir():
            raise FedtideError(f"{folder}: not a folder")
        paths = sorted(path.parent for path in folder.rglob("run.json") if path.is_file())
        table = columns(
            f"Run in {escape(str(folder))}", "State", "Rounds", "Seeds", "Methods", "Title", right=slice(2, 4)
        )
        for column in table.columns[:4]:
            column.no_wrap = True
        unfinished = []
        for path in paths:
            state, facts = _described(path)
            unfinished += [path] if state.endswith("done") else []
            table.add_row(*(escape(clean(text)) for text in (str(path.relative_to(folder)), state, *facts)))
        if not paths:
            typer.echo(f"{folder}: no runs")
            return
        show(table)
        for path in unfinished:
            typer.echo(f"Not finished: fedtide resume {path}")


def _described(folder: Path) -> tuple[str, list[str]]:
    """The state of a run, and its rounds, seeds, methods and title."""
    from fedtide.simulation.blocks import blocks_of, of_all_seeds, place_of, rounds_done
    from fedtide.simulation.result import read_about

    try:
        about: dict[str, Any] = read_about(folder)
        labels = [method["label"] for method in about["methods"]]
        facts = [f"{about['rounds']:,}", str(len(about["seeds"])), ", ".join(labels), str(about.get("title") or "")]
        blocks = blocks_of(folder, about["seeds"])
    except (FedtideError, KeyError, TypeError, ValueError, OSError):
        return "damaged", ["", "", "", ""]
    if about["finished"]:
        return "finished", facts
    done = 0
    for number in range(len(labels)):
        places = [place_of(folder, number, block, len(blocks)) for block in range(len(blocks))]
        done += of_all_seeds(blocks, [rounds_done(place) or 0 for place in places])
    return f"{done / (about['rounds'] * len(labels)):.0%} done", facts
