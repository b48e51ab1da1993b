"""Commands about the papers: `experiments`, `reproduce`."""

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from fedtide.cli.faults import explained
from fedtide.cli.layout import columns, show
from fedtide.errors import FedtideError

if TYPE_CHECKING:
    from fedtide.experiments.reproduce import Progress


class Scale(StrEnum):
    """How much of a study is run."""

    smoke = "smoke"
    reduced = "reduced"
    paper = "paper"


def experiments(
    name: Annotated[str | None, typer.Argument(help="An experiment of the list.", show_default=False)] = None,
) -> None:
    """List the papers' figures and tables that can be run again, or explain one: settings, scales and claims.

    \b
    Examples:
      fedtide experiments
      fedtide experiments ca_fed_fig1a
    """
    with explained():
        if name is not None:
            return _explain(name)
        from fedtide.experiments import study

        for paper, found in study.by_paper().items():
            table = columns("", "", "")
            for key, one in found.items():
                table.add_row(f"  {key}", one.figure, escape(one.title))
            show(f"[bold]{escape(study.papers()[paper].title)}[/]", table, "")
        show("One in full, with its claims: fedtide experiments NAME", "Run it: fedtide reproduce NAME --scale smoke")


def reproduce(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME…", help="Experiments, or TOML files of your own.", show_default=False)
    ],
    scale: Annotated[
        Scale,
        typer.Option(help="smoke: seconds, on embedded data; reduced: small real data sets; paper: as published."),
    ] = Scale.reduced,
    data_dir: Annotated[
        Path | None, typer.Option(help="Where data sets lie.", show_default="FEDTIDE_DATA, then the user's cache")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results; each experiment has its own in it.")] = Path(
        "reproductions"
    ),
) -> None:
    """Run figures and tables of the papers and say which of their claims hold.

    Every method gets the same number of trials on validation data of a data draw of its own, then runs on others; the
    published learning rates are run, too. The statistic and threshold that decide a claim are part of the study: see
    fedtide experiments NAME. Writes OUT/NAME/results.json and page.html.

    \b
    Examples:
      fedtide reproduce ca_fed_fig1a --scale smoke
      fedtide reproduce ca_fed_fig1a cvar_mnist_fig3 --data-dir ~/data
    """
    with explained():
        from fedtide.experiments.build import build
        from fedtide.experiments.claims import in_words, judge
        from fedtide.experiments.reproduce import reproduce as run
        from fedtide.experiments.study import plan
        from fedtide.files import atomic
        from fedtide.report import reproduction

        if len(set(names)) < len(names):
            raise FedtideError("an experiment is named twice")
        planned = [plan(name, scale.value, data_dir) for name in names]
        for one in planned:
            if (out / one.name / "results.json").exists():
                raise FedtideError(f"{out / one.name}: has results; choose another folder with --out, or remove it")
            for panel in one.panels:
                build(panel.config)  # missing data are told now, not after hours
        for name, one in zip(names, planned, strict=True):
            with _bar(one.name) as progress:
                results = run(one, progress)
            given = ["fedtide", "reproduce", name, "--scale", scale.value]
            results["command"] = shlex.join(given if data_dir is None else [*given, "--data-dir", data_dir.name])
            rows = reproduction.rows(judge(one.study, results), in_words)
            page = reproduction.write(out / one.name / "page.html", reproduction.facts(one.study), results, rows)
            with atomic(out / one.name / "results.json") as temporary:
                temporary.write_text(json.dumps(results, ensure_ascii=False) + "\n", encoding="utf-8")
            table = columns("verdict", "claim", "published", "ours")
            for row in rows:
                table.add_row(*(escape(row[key]) for key in ("verdict", "says", "published", "ours")))
            show(table)
            typer.echo(f"Page: {page}")


@contextmanager
def _bar(name: str) -> Iterator["Progress"]:
    """One bar whose text says what is being done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from fedtide.cli.interrupts import interrupts

    shown: list[Any] = [TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()]
    bar = Progress(*shown, TimeRemainingColumn(), console=Console(stderr=True, highlight=False))
    with bar, interrupts() as interrupted:
        task, before = bar.add_task(name, total=None), ""

        def progress(what: str, done: int, total: int) -> None:
            nonlocal before
            if what != before:
                bar.reset(task, description=f"{name}: {what}", total=total)
                before = what
            bar.update(task, completed=done, total=total)
            interrupted.check()

        yield progress


def _explain(name: str) -> None:
    from fedtide.experiments import study
    from fedtide.experiments.claims import in_words

    _, found = study.load_study(name)
    show(f"[bold]{escape(found.figure)}: {escape(found.title)}[/]", "", *map(escape, found.about.strip().split("\n")))
    table = columns("", "")
    table.add_row("paper", escape(study.papers()[found.paper].title) if found.paper in study.papers() else found.paper)
    table.add_row("methods", escape(", ".join(study.label_of(m) for m in found.methods)))
    if found.fixed:
        table.add_row("as published", escape(", ".join(study.label_of(m) for m in found.fixed)))
    if found.cases:
        table.add_row("cases", escape(", ".join(case.label for case in found.cases)))
    for scale, changes in found.scales.items():
        table.add_row(f"--scale {scale}", escape(changes.note or "as published"))
    show("", table, "", "[bold]Claims[/]")
    for claim in found.claims:
        show(f"  {escape(claim.says)}", f"    published: {escape(claim.published)}", f"    {escape(in_words(claim))}")
    show("", f"Run it: fedtide reproduce {escape(name)}")
