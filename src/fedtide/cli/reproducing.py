"""Commands for published results: `experiments`, `reproduce`."""

import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.markup import escape
from typer import Option

from fedtide.cli.faults import explained
from fedtide.cli.layout import Argument, columns, optional, show
from fedtide.errors import FedtideError

if TYPE_CHECKING:
    from fedtide.reproduce.study import StudyPlan


def experiments(
    name: Annotated[str | None, Argument(help="Name of a study.")] = None,
) -> None:
    """List the published figures and tables that can be reproduced, or explain one of them.

    \b
    Examples:
      fedtide experiments
      fedtide experiments ca_fed_fig1a
    """
    with explained():
        from fedtide.reproduce import study

        if name is not None:
            return _explain(name)
        for paper, studies in study.by_paper().items():
            table = columns("", "", "")
            for key, one in studies.items():
                table.add_row(f"  {key}", one.figure, escape(one.title))
            show(f"[bold]{escape(study.papers()[paper].title)}[/]", table, "")
        show("Explain a study: fedtide experiments NAME", "Run a study: fedtide reproduce NAME --scale smoke")


def reproduce(
    names: Annotated[list[str], Argument(metavar="NAME…", help="Studies, or your own TOML files.")],
    scale: Annotated[
        Literal["smoke", "reduced", "paper"],
        Option(
            help="smoke: a quick test on scikit-learn's digits; reduced: small real data sets; paper: as published."
        ),
    ] = "reduced",
    data_dir: Annotated[
        Path | None, optional("Folder of the data sets.", "FEDTIDE_DATA, then the user's cache")
    ] = None,
    out: Annotated[Path, Option(help="Folder for the results, with a sub-folder per study.")] = Path("reproductions"),
) -> None:
    """Reproduce published figures and tables, and test which of the papers' claims hold.

    Every method is tuned with the same number of trials, on validation data of a
    separate data draw, and then run on other draws; where learning rates were
    published, it is also run with these. The statistic and the threshold that
    decide a claim are part of the study: see fedtide experiments NAME. Writes
    OUT/NAME/results.json and page.html.

    A study that was stopped continues if the same command is run again: what each
    case has computed is kept in OUT/NAME/cells until the results are written.

    \b
    Examples:
      fedtide reproduce ca_fed_fig1a --scale smoke
      fedtide reproduce ca_fed_fig1a cvar_mnist_fig3 --data-dir ~/data
    """
    with explained():
        from fedtide.experiments.build import build
        from fedtide.reproduce.study import plan

        if len(set(names)) < len(names):
            raise FedtideError("a study is given twice")
        planned = [plan(name, scale, data_dir) for name in names]
        for one in planned:
            if (out / one.name / "results.json").exists():
                raise FedtideError(f"{out / one.name}: has results; choose another folder with --out, or remove it")
            for panel in one.panels:
                build(panel.config)  # missing data are reported now, not after hours
    options = {"--scale": scale, "--data-dir": data_dir, "--out": out}
    given = [text for option, value in options.items() if value is not None for text in (option, str(value))]
    for i, (name, one) in enumerate(zip(names, planned, strict=True)):
        with explained(resume=shlex.join(["fedtide", "reproduce", *names[i:], *given])):
            _reproduce(name, one, scale, data_dir, out / one.name)


def _reproduce(name: str, planned: "StudyPlan", scale: str, data_dir: Path | None, folder: Path) -> None:
    """Runs a study, or continues it, and prints its verdicts."""
    from fedtide.cli.progress import LabelledBars, interruptible
    from fedtide.files import alone, write_text
    from fedtide.reproduce.claims import judge
    from fedtide.reproduce.page.page import render
    from fedtide.reproduce.page.words import ours
    from fedtide.reproduce.run import reproduce as run

    cells = folder / "cells"
    if cells.exists():
        typer.echo(f"{planned.name}: continuing from {cells}", err=True)
    with alone(folder, "another reproduction is using it"), interruptible(LabelledBars()) as progress:
        results = run(planned, lambda what, done, total: progress(f"{planned.name}: {what}", done, total), cells)
        command = ["fedtide", "reproduce", name, "--scale", scale]
        command += [] if data_dir is None else ["--data-dir", data_dir.name]
        results = results.model_copy(update={"command": shlex.join(command)})
        claims = judge(planned.study, results)
        page = write_text(folder / "page.html", render(planned.study, results, claims))
        results.write(folder / "results.json")
        shutil.rmtree(cells, ignore_errors=True)
    table = columns("verdict", "claim", "published", "measured")
    for judged in claims:
        row = judged.claim.says, judged.claim.published, "; ".join(ours(judged))
        table.add_row(judged.verdict, *map(escape, row))
    show(table)
    typer.echo(f"Page: {page}")


def _explain(name: str) -> None:
    from fedtide.reproduce import study
    from fedtide.reproduce.claims import in_words

    _, entry = study.load_study(name)
    show(f"[bold]{escape(entry.figure)}: {escape(entry.title)}[/]", "", *map(escape, entry.about.strip().split("\n")))
    table = columns("", "")
    table.add_row("paper", escape(study.papers()[entry.paper].title) if entry.paper in study.papers() else entry.paper)
    listed = {
        "methods": [study.label_of(m) for m in entry.methods],
        "not tuned": [study.label_of(m) for m in entry.fixed],
        "cases": [case.label for case in entry.cases],
    }
    for heading, labels in listed.items():
        if labels:
            table.add_row(heading, escape("; ".join(labels)))
    for scale, changes in entry.scales.items():
        table.add_row(f"--scale {scale}", escape(changes.note or "as published"))
    show("", table, "", "[bold]Claims[/]")
    for claim in entry.claims:
        show(f"  {escape(claim.says)}", f"    published: {escape(claim.published)}", f"    {escape(in_words(claim))}")
    show("", f"Run it: fedtide reproduce {escape(name)}")
