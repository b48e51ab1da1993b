"""From a name to a data set: find its files, read them once, and say what is missing where they are not."""

import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedtide.data import archives, beginnings, idx, npz
from fedtide.data.base import Arrays, DataSet
from fedtide.data.catalogue import CATALOGUE, Entry, Form
from fedtide.data.places import Folders, places
from fedtide.errors import FedtideError, did_you_mean


class Found(NamedTuple):
    """Where a data set's files lie: files in a folder, an archive, or one `.npz`."""

    path: Path  # the folder, the archive or the .npz
    form: Form | None = None  # None: an .npz
    names: tuple[str, ...] = ()  # in the folder; () for an archive

    @property
    def stamp(self) -> tuple[tuple[int, int], ...]:
        """Changes when the files do."""
        files = [self.path / name for name in self.names] or [self.path]
        return tuple((found.st_mtime_ns, found.st_size) for found in map(os.stat, files))


def load(name: str, folder: Folders = None) -> DataSet:
    """The data set of that name in the catalogue, or of an `.npz`, from what is on this machine.

    `name` may also be the path of an `.npz`, or the name of one in a data folder. Data are looked for in `folder` (one
    or several), in the folders of the environment variable FEDTIDE_DATA, and in the user's cache. What was read last is
    kept: loading it again costs nothing until its files change.

    >>> load("digits").x.shape
    (1438, 8, 8)
    """
    entry = CATALOGUE.get(name)
    if entry is None:
        path = _find_npz(name, folder)
        arrays = _read(None, Found(path), Found(path).stamp)
        highest = max(int(y.max()) for y in (arrays.y, arrays.test_y) if len(y))
        return DataSet(path.stem, *arrays, highest + 1)
    if entry.embedded is not None:
        return DataSet(name, *_embedded(entry), entry.expected.classes)
    found = find(entry, folder)
    if found is not None:
        return DataSet(name, *_read(entry, found, found.stamp), entry.expected.classes)
    if entry.cut is not None:
        full = CATALOGUE[entry.cut.of]
        found = find(full, folder)
        if found is not None:
            part = entry.cut.take(_read(full, found, found.stamp))
            return DataSet(name, *_frozen(part), entry.expected.classes)
    raise FedtideError(f"{name}: {missing(entry, folder)}")


def find(entry: Entry, folder: Folders = None) -> Found | None:
    """Where the data set's own files are, if they are all there. Their contents are not looked at."""
    for place in places(folder):
        if entry.cut is not None:
            path = place.path / f"{entry.name}.npz"
            if path.is_file():
                return Found(path)
        for base, own in _bases(entry, place.path):
            for form in entry.forms:
                found = _in_folder(entry, form, base, own) or _in_archive(form, base)
                if found is not None:
                    return found
    return None


def missing(entry: Entry, folder: Folders = None) -> str:
    """What is needed and was not found, where it was looked for, and how to get it; one line."""
    looked = "looked in " + ", ".join(
        f"{place.path}{'' if place.path.is_dir() else ' (no such folder)'}" for place in places(folder)
    )
    name = entry.cut.of if entry.cut is not None else entry.name
    what = f"{needs(entry, every_file=True)}: not found"
    return f"{what}; {_partly(entry, folder)}{looked}; to download: fedtide data fetch {name}"


def needs(entry: Entry, *, every_file: bool = False) -> str:
    """What the data set is read from, as people write it; with the files in archives if `every_file`."""
    if entry.embedded is not None:
        return "nothing"
    if entry.cut is not None:
        return f"{entry.name}.npz, or the files of {entry.cut.of}"
    published = list(dict.fromkeys(form.archives[0] for form in entry.forms if form.archives))
    files = " or ".join(dict.fromkeys(_and(form.files) for form in entry.forms))
    if not published:
        return files
    inside = f"the files in {'it' if len(published) == 1 else 'one of them'}"
    return f"{' or '.join(published)}, or {inside}" + (f" ({files})" if every_file else "")


def own_sets(folder: Folders = None) -> dict[str, Path]:
    """The `.npz` files in the data folders that are not in the catalogue, by name."""
    found: dict[str, Path] = {}
    for place in places(folder):
        for path in sorted(place.path.glob("*.npz")) if place.path.is_dir() else ():
            if path.stem not in CATALOGUE and npz.is_data(path):
                found.setdefault(path.stem, path)
    return found


def _bases(entry: Entry, root: Path) -> Iterator[tuple[Path, bool]]:
    """The folders to look in below a data folder, and whether their name says that they are the data set's."""
    subs = dict.fromkeys(("", *(folder for form in entry.forms for folder in form.folders)))
    for name in (*entry.folders, ""):
        for sub in subs:
            base = root / name / sub
            own = any(part in entry.folders for part in base.parts[-2:])
            if base.is_dir():
                yield base, own


def _in_folder(entry: Entry, form: Form, base: Path, own: bool) -> Found | None:
    names = _spelt(form, base)
    if not all(names):
        return None
    if form.shared and not own:  # whose are they?
        begins = beginnings.known(idx.first_labels(base / names[1], beginnings.COUNT))
        if begins is not None and begins[0] != entry.name:
            return None
    return Found(base, form, names)


def _in_archive(form: Form, base: Path) -> Found | None:
    for archive in form.archives:
        if (base / archive).is_file():
            return Found(base / archive, form)
    return None


def _spelt(form: Form, base: Path) -> tuple[str, ...]:
    """The files' names as they are in the folder; "" for one that is not there."""
    return tuple(
        next((name for name in archives.spellings(file) if (base / name).is_file()), "") for file in form.files
    )


def _partly(entry: Entry, folder: Folders) -> str:
    """Where some of the files are, and which are not."""
    for place in places(folder):
        for base, _ in _bases(entry, place.path):
            for form in entry.forms:
                there = _spelt(form, base)
                if any(there):
                    lacking = [file for file, name in zip(form.files, there, strict=True) if not name]
                    if lacking:
                        return f"{base} lacks {', '.join(lacking)}; "
    return ""


def _and(files: tuple[str, ...]) -> str:
    zipped = ", .gz or not" if files[0].endswith("ubyte") else ""
    *most, last = files
    if len(most) > 3:
        return f"{most[0]} … {most[-1]} and {last}"
    return f"{', '.join(most)} and {last}{zipped}"


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
def _read(entry: Entry | None, found: Found, stamp: tuple[tuple[int, int], ...]) -> Arrays:
    """Kept for the next call; `stamp` is there to read again what has changed."""
    if found.form is None or entry is None:
        return _frozen(npz.read(found.path, None if entry is None else entry.expected))
    read = archives.read_folder if found.names else archives.read_archive
    files = read(found.path, found.names or found.form.files, entry.expected.most_bytes)
    arrays = found.form.read(files, entry.expected)
    beginnings.check(found.path, entry.name, arrays.y, arrays.test_y)
    return _frozen(arrays)


@functools.cache
def _embedded(entry: Entry) -> Arrays:
    assert entry.embedded is not None
    return _frozen(entry.embedded())


def _frozen(arrays: Arrays) -> Arrays:
    """Read-only: others hold the same arrays."""
    for array in arrays:
        array.flags.writeable = False
    return Arrays(*map(np.asarray, arrays))
