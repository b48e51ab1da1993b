"""Loads data sets by name: finds their files, reads them once, and reports missing files."""

import functools
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedtide.data import archives, idx, npz
from fedtide.data.base import Arrays, DataSet, wrong
from fedtide.data.catalogue import CATALOGUE, DataSpec, Form
from fedtide.data.places import Folders, places
from fedtide.errors import FedtideError, did_you_mean
from fedtide.kinds import kinds_checked
from fedtide.text import listed

_BEGINNING = 10  # first labels, which distinguish data sets with equal names and sizes of files
_FIRST_LABELS: dict[tuple[int, ...], tuple[str, str]] = {
    (5, 0, 4, 1, 9, 2, 1, 3, 1, 4): ("mnist", "training"),
    (7, 2, 1, 0, 4, 1, 4, 9, 5, 9): ("mnist", "test"),
    (9, 0, 0, 3, 0, 2, 7, 2, 5, 5): ("fashion_mnist", "training"),
    (9, 2, 1, 1, 6, 1, 4, 6, 5, 7): ("fashion_mnist", "test"),
    (6, 9, 9, 4, 1, 1, 2, 7, 8, 3): ("cifar10", "training"),
    (3, 8, 8, 0, 6, 6, 1, 6, 3, 1): ("cifar10", "test"),
}


class Location(NamedTuple):
    """The location of the files of a data set: a folder, an archive, or one `.npz`."""

    path: Path  # the folder, the archive or the .npz
    form: Form | None = None  # None: an .npz
    names: tuple[str, ...] = ()  # in the folder; () for an archive

    @property
    def stamp(self) -> tuple[tuple[int, int], ...]:
        """Changes when the files change."""
        files = [self.path / name for name in self.names] or [self.path]
        return tuple((status.st_mtime_ns, status.st_size) for status in map(os.stat, files))


@kinds_checked
def load(name: str, folder: Folders = None) -> DataSet:
    """The data set of this name, from files on this machine.

    `name` is a name in the catalogue, the path of an `.npz`, or the name of one in a data folder. Data are searched in
    `folder` (one or several), in the folders listed in the environment variable FEDTIDE_DATA, and in the user's cache.
    The last data sets are kept in memory and read again only if their files change.

    >>> load("digits").x.shape
    (1438, 8, 8)
    """
    entry = CATALOGUE.get(name)
    if entry is None:
        path = _find_npz(name, folder)
        arrays = _read(None, Location(path), Location(path).stamp)
        highest = max(int(y.max()) for y in (arrays.y, arrays.test_y) if len(y))
        return DataSet(path.stem, *arrays, highest + 1)
    if entry.embedded is not None:
        return DataSet(name, *_embedded(entry.embedded), entry.expected.classes)
    source, location = locate(entry, folder)
    if location is None:
        raise FedtideError(f"{name}: {missing(entry, folder)}")
    arrays = _read(source, location, location.stamp)
    if entry.cut is not None and source is not entry:
        arrays = _frozen(entry.cut.take(arrays))
    return DataSet(name, *arrays, entry.expected.classes)


def locate(entry: DataSpec, folder: Folders = None) -> tuple[DataSpec, Location | None]:
    """Where a data set is read from: its own files or, for a part, those of the whole data set."""
    location = find(entry, folder)
    if location is None and entry.cut is not None:
        entry = CATALOGUE[entry.cut.of]
        location = find(entry, folder)
    return entry, location


def find(entry: DataSpec, folder: Folders = None) -> Location | None:
    """The location of the files of a data set if they are complete. Their contents are not checked."""
    for place in places(folder):
        if entry.cut is not None:
            path = place.path / f"{entry.name}.npz"
            if path.is_file():
                return Location(path)
        for base, own in _bases(entry, place.path):
            for form in entry.forms:
                location = _in_folder(entry, form, base, own) or _in_archive(form, base)
                if location is not None:
                    return location
    return None


def missing(entry: DataSpec, folder: Folders = None) -> str:
    """One line with the missing files, the folders searched, and the command that downloads them."""
    searched = "searched " + ", ".join(
        f"{place.path}{'' if place.path.is_dir() else ' (no such folder)'}" for place in places(folder)
    )
    name = entry.cut.of if entry.cut is not None else entry.name
    what = f"{needs(entry, every_file=True)}: not found"
    return f"{what}; {_partly(entry, folder)}{searched}; to download: fedtide data fetch {name}"


def needs(entry: DataSpec, *, every_file: bool = False) -> str:
    """The files that a data set is read from, in words; with the files in archives if `every_file`."""
    if entry.embedded is not None:
        return "nothing"
    if entry.cut is not None:
        return f"{entry.name}.npz, or the files of {entry.cut.of}"
    published = list(dict.fromkeys(form.archives[0] for form in entry.forms if form.archives))
    files = " or ".join(dict.fromkeys(_written(form.files) for form in entry.forms))
    if not published:
        return files
    inside = f"the files in {'it' if len(published) == 1 else 'one of them'}"
    return f"{' or '.join(published)}, or {inside}" + (f" ({files})" if every_file else "")


def own_sets(folder: Folders = None) -> dict[str, Path]:
    """The `.npz` files in the data folders that are not in the catalogue, by name."""
    sets: dict[str, Path] = {}
    for place in places(folder):
        for path in sorted(place.path.glob("*.npz")) if place.path.is_dir() else ():
            if path.stem not in CATALOGUE and npz.is_data(path):
                sets.setdefault(path.stem, path)
    return sets


def _bases(entry: DataSpec, root: Path) -> Iterator[tuple[Path, bool]]:
    """The folders to search below a data folder, and whether they are named after the data set."""
    subs = dict.fromkeys(("", *(folder for form in entry.forms for folder in form.folders)))
    for name in (*entry.folders, ""):
        for sub in subs:
            base = root / name / sub
            own = any(part in entry.folders for part in base.parts[-2:])
            if base.is_dir():
                yield base, own


def _in_folder(entry: DataSpec, form: Form, base: Path, own: bool) -> Location | None:
    names = _spelt(form, base)
    if not all(names):
        return None
    if form.shared and not own:  # which data set do they belong to?
        begins = _known(idx.first_labels(base / names[1], _BEGINNING))
        if begins is not None and begins[0] != entry.name:
            return None
    return Location(base, form, names)


def _in_archive(form: Form, base: Path) -> Location | None:
    for archive in form.archives:
        if (base / archive).is_file():
            return Location(base / archive, form)
    return None


def _spelt(form: Form, base: Path) -> tuple[str, ...]:
    """The names of the files in the folder; "" for missing ones."""
    return tuple(
        next((name for name in archives.spellings(file) if (base / name).is_file()), "") for file in form.files
    )


def _partly(entry: DataSpec, folder: Folders) -> str:
    """A folder with some of the files, and the files that are missing there."""
    for place in places(folder):
        for base, _ in _bases(entry, place.path):
            for form in entry.forms:
                there = _spelt(form, base)
                if any(there):
                    lacking = [file for file, name in zip(form.files, there, strict=True) if not name]
                    if lacking:
                        return f"{base} does not contain {', '.join(lacking)}; "
    return ""


def _written(files: tuple[str, ...]) -> str:
    first, *others = files
    if len(others) > 3:
        return listed([f"{first} … {others[-2]}", others[-1]])
    return listed(files) + (", .gz or not" if first.endswith("ubyte") else "")


def _find_npz(name: str, folder: Folders) -> Path:
    file = name if name.endswith(".npz") else f"{name}.npz"
    tried = [Path(file).expanduser()] if name.endswith(".npz") else []
    tried += [place.path / file for place in places(folder)]
    for path in tried:
        if path.is_file():
            return path
    hint = "" if name.endswith(".npz") else f" and no data set: {did_you_mean(name, CATALOGUE)}"
    raise FedtideError(f"'{name}' is no .npz at {', '.join(map(str, tried))}{hint}")


@functools.lru_cache(maxsize=2)
def _read(entry: DataSpec | None, location: Location, stamp: tuple[tuple[int, int], ...]) -> Arrays:
    """Kept for the next call; `stamp` is there to read again what has changed."""
    if location.form is None or entry is None:
        return _frozen(npz.read(location.path, None if entry is None else entry.expected))
    read = archives.read_folder if location.names else archives.read_archive
    files = read(location.path, location.names or location.form.files, entry.expected.most_bytes)
    arrays = location.form.read(files, entry.expected)
    _check_beginnings(location.path, entry.name, arrays.y, arrays.test_y)
    return _frozen(arrays)


@functools.cache
def _embedded(build: Callable[[], Arrays]) -> Arrays:
    return _frozen(build())


def _frozen(arrays: Arrays) -> Arrays:
    """Makes the arrays read-only, because they are shared."""
    for array in arrays:
        array.flags.writeable = False
    return Arrays(*map(np.asarray, arrays))


def _known(labels: Iterable[int]) -> tuple[str, str] | None:
    """The known data set and part that begin with these labels, if any."""
    return _FIRST_LABELS.get(tuple(int(label) for label in islice(labels, _BEGINNING)))


def _check_beginnings(where: object, name: str, labels: Iterable[int], test_labels: Iterable[int]) -> None:
    """Raises if a part begins like another known data set or like the other part."""
    for part, known in (("training", _known(labels)), ("test", _known(test_labels))):
        if known is not None and known != (name, part):
            other = f"the {known[1]} labels of {known[0]}"
            wrong(where, f"the {part} labels of {name} expected, those found begin like {other}")
