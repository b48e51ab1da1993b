"""Where data are looked for: folders given, those of FEDTIDE_DATA, the user's cache."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

VARIABLE = "FEDTIDE_DATA"

Folders = Path | str | Iterable[Path | str] | None
"""One folder, several, or none."""


class Place(NamedTuple):
    """A folder in which data are looked for, and why there."""

    path: Path
    why: str


def places(given: Folders = None) -> list[Place]:
    """The folders in their order; each once."""
    asked = [] if given is None else [given] if isinstance(given, str | os.PathLike) else list(given)
    variable = [part for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
    every = [
        *(Place(Path(path).expanduser(), "given") for path in asked),
        *(Place(Path(path).expanduser(), VARIABLE) for path in variable),
        Place(user_cache(), "the user's cache"),
    ]
    first: dict[Path, Place] = {}
    for place in every:
        first.setdefault(place.path, place)
    return list(first.values())


def user_cache() -> Path:
    """The folder in which the platform keeps what can be fetched again."""
    home = Path.home()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "fedtide" / "Cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "fedtide"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "fedtide"
