"""Folders for results: they receive all files of a command, or none."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fedtide.errors import FedtideError
from fedtide.files import vacant


@contextlib.contextmanager
def made(folder: Path) -> Iterator[Path]:
    """Creates a folder, which fails early if it cannot be created, and yields an empty temporary one to write to.

    At the end its files move to `folder`. If the block raises, nothing remains.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        # Inside the folder, so that moving is renaming.
        with tempfile.TemporaryDirectory(prefix=".", suffix=".partial", dir=folder, ignore_cleanup_errors=True) as made:
            yield Path(made)
            _move(Path(made), folder)
    except BaseException:
        with contextlib.suppress(OSError):  # not empty: it holds other files
            for path in missing:
                path.rmdir()
        raise


def require_vacant(folder: Path, otherwise: str = "") -> None:
    """Raises unless the folder is new or empty; `otherwise` ends the message with an alternative."""
    if not vacant(folder):
        raise FedtideError(f"{folder}: exists and is not empty; choose another --out{otherwise}")


def check(folder: Path) -> None:
    """Raises early, rather than after minutes of work, if a folder cannot be created or written to. Leaves no trace."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".", suffix=".partial", dir=folder):
            pass
    finally:
        for path in missing:
            if path.exists():
                path.rmdir()


def _move(source: Path, target: Path) -> None:
    """Moves all files, recursively; a file of the same name is replaced atomically."""
    for path in sorted(source.iterdir()):
        own = target / path.name
        if path.is_dir():
            own.mkdir(exist_ok=True)
            _move(path, own)
        else:
            path.replace(own)
