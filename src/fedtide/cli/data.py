"""The command group `data`: what is here, `fetch`, `show`."""

import logging
import os
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.markup import escape
from rich.table import Table

from fedtide.cli.faults import explained
from fedtide.cli.layout import columns, show
from fedtide.errors import FedtideError, InvalidInput

if TYPE_CHECKING:
    import numpy as np

app = typer.Typer()

_ROWS = 24  # clients in the terminal
_DEFAULT_CONCENTRATION = 0.3

DataDir = Annotated[Path | None, typer.Option(metavar="DIR", help="A folder to look in first.", show_default=False)]


@app.callback(invoke_without_command=True)
def data(context: typer.Context, data_dir: DataDir = None) -> None:
    """List the data sets: which are on this machine, and where; what the others need, and how to get it.

    Data are looked for in --data-dir, in the folders of the environment variable FEDTIDE_DATA, and in
    the user's cache; in each also in sub-folders named after the data set. An .npz file with the
    arrays x, y and is_test (or test_x, test_y) is a data set too.

    \b
    Examples:
      fedtide data
      fedtide data --data-dir /data/images
      fedtide data fetch mnist
      fedtide data show mnist --clients 20 --concentration 0.3 --out who.svg
    """
    context.obj = data_dir
    if context.invoked_subcommand is None:
        with explained():
            _list(data_dir)


@app.command()
def fetch(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="Data sets.", show_default=False)],
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder to put them in.", show_default="the user's cache"),
    ] = None,
) -> None:
    """Download data sets, checked against their published checksums; what is there already stays.

    \b
    Examples:
      fedtide data fetch mnist
      fedtide data fetch fashion_mnist cifar10 --data-dir /data/images
    """
    with explained():
        from fedtide.data.fetching import fetch, fetchable

        entries = dict.fromkeys(fetchable(name) for name in names)  # all names are right before anything is fetched
        for entry in entries:
            with _bars() as bar:
                paths = fetch(entry.name, data_dir or context.obj, bar=bar)
            files = "1 file" if len(paths) == 1 else f"{len(paths)} files"
            typer.echo(f"{entry.name}: {files} in {paths[0].parent}")
            typer.echo(f"Licence: {entry.licence}. Cite: {entry.reference}.")


@app.command("show")
def show_holdings(
    context: typer.Context,
    what: Annotated[
        str,
        typer.Argument(metavar="NAME|CONFIG.toml", help="A data set, or a configuration.", show_default=False),
    ],
    clients: Annotated[int | None, typer.Option(min=1, help="Number of clients.", show_default="20")] = None,
    partition: Annotated[str | None, typer.Option(help="How the samples are split.", show_default="dirichlet")] = None,
    concentration: Annotated[
        float | None, typer.Option(help="Concentration of a Dirichlet split.", show_default="0.3")
    ] = None,
    argument: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Another argument of the split, as in TOML.", show_default=False
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the split.", show_default="0")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="File for the picture: .svg, .png or .pdf.", show_default=False),
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Show who holds what: how many samples of each class each client gets.

    For a data set, the split is that of the options; for a configuration, that of its problem.

    \b
    Examples:
      fedtide data show digits
      fedtide data show mnist --clients 20 --partition dirichlet --concentration 0.3 --out who.svg
      fedtide data show cifar10 --partition label_skew --set classes=2 --seed 1
      fedtide data show my.toml --out who.png
    """
    with explained():
        split = {"clients": clients, "partition": partition, "concentration": concentration, "seed": seed}
        given = {name: value for name, value in split.items() if value is not None}
        if argument:
            given["set"] = argument
        folder = data_dir or context.obj
        held = _of_configuration(Path(what), given, folder) if what.endswith(".toml") else _of_data(what, given, folder)
        if out is not None:  # first: a name that cannot be written should cost no table
            from fedtide.report.holdings import holdings, save

            save(holdings(held.counts, held.class_names, (held.title, *held.notes)), out)
        show(*_table(held))
        if out is not None:
            typer.echo(f"Picture: {out}")


class _Held(NamedTuple):
    """Who holds what, and its words."""

    counts: "np.ndarray"  # [clients, classes]
    class_names: tuple[str, ...]
    title: str
    notes: tuple[str, ...]


def _list(data_dir: Path | None) -> None:
    from fedtide.data import CATALOGUE
    from fedtide.data.loading import find, needs, own_sets
    from fedtide.data.places import VARIABLE, places

    table = columns("name", "what", "where")
    lacking = False
    for entry in CATALOGUE.values():
        found = find(entry, data_dir)
        whole = find(CATALOGUE[entry.cut.of], data_dir) if entry.cut is not None else None
        if entry.embedded is not None:
            where = "comes with scikit-learn"
        elif found is not None:
            where = str(found.path)
        elif whole is not None and entry.cut is not None:
            where = f"cut from {entry.cut.of} in {whole.path}"
        else:
            lacking = True
            size = sum(remote.size for remote in entry.remotes)
            fetched = f"; {size / 1e6:,.0f} MB to fetch" if size else ""
            where = f"missing: {needs(entry)}{fetched}"
        style = "[dim]{}[/]" if where.startswith("missing") else "{}"
        table.add_row(entry.name, escape(entry.summary), style.format(escape(where)))
    for name, path in own_sets(data_dir).items():
        table.add_row(escape(name), "an .npz of yours", escape(str(path)))
    looked = columns("", "")
    for place in places(data_dir):
        why = "--data-dir" if place.why == "given" else place.why
        looked.add_row(escape(str(place.path)), why + ("" if place.path.is_dir() else " (no such folder)"))
    show(table, "", "[bold]Looked in[/]", looked)
    if VARIABLE not in os.environ:
        show(f"Folders of your own: --data-dir DIR, or {VARIABLE}=DIR in the environment.")
    if lacking:
        show("", "Get a missing one: fedtide data fetch NAME")


@contextmanager
def _bars() -> Iterator[Any]:
    """Progress on stderr: a function that gives, for a file, a bar as pooch wants it."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    progress = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )

    class Bar:
        total = 0  # set by pooch; ours is the published size

        def __init__(self, remote: Any) -> None:
            self._task = progress.add_task(remote.name, total=remote.size)

        def update(self, count: int) -> None:
            progress.advance(self._task, count)

        def reset(self) -> None:
            progress.reset(self._task)

        def close(self) -> None:
            pass

    with progress:
        yield Bar


def _of_data(name: str, given: dict[str, Any], data_dir: Path | None) -> _Held:
    import numpy as np

    from fedtide import partitioners
    from fedtide.data import CATALOGUE, load
    from fedtide.experiments.arguments import Context, named
    from fedtide.experiments.place import Place
    from fedtide.tomls import toml

    loaded = load(name, data_dir)
    clients, seed, partition = given.get("clients", 20), given.get("seed", 0), given.get("partition", "dirichlet")
    arguments: dict[str, Any] = {}
    for key, value in map(_assignment, given.get("set", ())):
        if key in arguments or key in given:
            raise FedtideError(f"--set = '{key}={value}': {key} is given twice")
        arguments[key] = value
    if "concentration" in given:
        arguments["concentration"] = given["concentration"]
    elif partition == "dirichlet":
        arguments.setdefault("concentration", _DEFAULT_CONCENTRATION)
    builders = {entry.name: entry.build for entry in partitioners.CATALOGUE.values()}
    build = named({"name": partition, **arguments}, builders, Place("--partition"), Context())
    try:
        split = build(loaded.y, clients, seed=seed)
    except InvalidInput:
        if clients > len(loaded.y):  # partitioners speak of labels, which nobody gave here
            raise InvalidInput("--clients", clients, f"at most {len(loaded.y):,}, the samples of {name}") from None
        raise
    counts = np.array([np.bincount(loaded.y[mine], minlength=loaded.classes) for mine in split])
    entry = CATALOGUE.get(name)
    names = entry.class_names if entry is not None else _numbers(loaded.classes)
    written = ", ".join(f"{key} = {toml(value)}" for key, value in arguments.items())
    title = f"{loaded.name} over {clients:,} clients by {partition}({written}), seed {seed}"
    return _Held(counts, names, title, tuple(split.notes))


def _of_configuration(path: Path, given: dict[str, Any], data_dir: Path | None) -> _Held:
    from fedtide.data import CATALOGUE
    from fedtide.experiments import build, load
    from fedtide.experiments.study import with_problem

    if given:
        raise FedtideError(f"--{next(iter(given))}: for a data set; a configuration says how its data are split")
    config = load(path)
    if data_dir is not None and config.problem.name == "images":
        config = with_problem(config, data_dir=str(data_dir.resolve()))
    with _notes() as notes:
        problem = build(config).problem
    counts = getattr(problem, "label_counts", None)
    if counts is None:
        raise FedtideError(f"{path}: problem '{config.problem.name}' has no classes to show")
    named = CATALOGUE.get(getattr(config.problem, "data", config.problem.name))
    known = named is not None and len(named.class_names) == counts.shape[1]
    names = named.class_names if named is not None and known else _numbers(counts.shape[1])
    return _Held(counts, names, f"{path.name}: {config.problem.name} over {len(counts):,} clients", tuple(notes))


@contextmanager
def _notes() -> Iterator[list[str]]:
    """What problems say of their split while they are built."""
    notes: list[str] = []
    handler = logging.Handler(logging.INFO)
    handler.emit = lambda record: notes.append(record.getMessage())
    log = logging.getLogger("fedtide")
    level = log.level
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    try:
        yield notes
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def _assignment(text: str) -> tuple[str, Any]:
    """KEY=VALUE, where VALUE is as in TOML, or a plain word."""
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not key.isidentifier():
        raise FedtideError(f"--set = '{text}': must be KEY=VALUE")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        word = value.strip()
        if word.replace("_", "").isalnum() and not word[0].isdigit():
            return key, word  # quotes are the shell's
        raise FedtideError(f"--set = '{text}': '{word}' is no TOML value, as 2, 0.5, \"word\" or [1, 2]") from None


def _numbers(classes: int) -> tuple[str, ...]:
    return tuple(map(str, range(classes)))


def _table(held: _Held) -> Sequence[Any]:
    """A row a client: its samples by class where they fit, else how many classes it has, and which most of."""
    import numpy as np
    from rich.console import Console

    counts = held.counts.astype(int)
    shown = np.unique(np.linspace(0, len(counts) - 1, min(len(counts), _ROWS)).round().astype(int))
    widths = [max(len(name), len(f"{most:,}")) + 2 for name, most in zip(held.class_names, counts.max(0), strict=True)]
    by_class = sum(widths) + 18 <= Console().width
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("client", "samples", *(held.class_names if by_class else ("classes",))):
        table.add_column(escape(heading), justify="right", no_wrap=True)
    if not by_class:
        table.add_column("most of", no_wrap=True, overflow="ellipsis")
    for client in shown:
        row = counts[client]
        cells = [f"{n:,}" if n else "[dim]·[/]" for n in row]
        if not by_class:
            order = [c for c in np.argsort(-row, kind="stable") if row[c]]
            most = ", ".join(f"{held.class_names[c]} {row[c]:,}" for c in order[:6])
            cells = [f"{len(order)}", escape(most + (", …" if len(order) > 6 else ""))]
        table.add_row(f"{client:,}", f"{row.sum():,}", *cells)
    sizes = counts.sum(1)
    held_by = (counts > 0).sum(1)
    summary = (
        f"{len(counts):,} clients, {sizes.sum():,} samples: {sizes.min():,} to {sizes.max():,} a client, "
        f"of {held_by.min()} to {held_by.max()} classes"
    )
    left_out = [f"Shown: {len(shown)} of {len(counts):,} clients, evenly chosen."] if len(shown) < len(counts) else []
    return [escape(held.title), "", table, "", summary, *left_out, *map(escape, held.notes)]
