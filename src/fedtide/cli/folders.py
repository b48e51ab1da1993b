"""Folders that a command fills: whole, or as they were before."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def made(folder: Path) -> Iterator[Path]:
    """Makes a folder, to know at once that it can be, and yields an empty one to write to.

    At the end its files move to `folder`. If what is done meanwhile fails or is stopped, nothing is left of it.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        # Inside of it, so that moving is renaming.
        with tempfile.TemporaryDirectory(prefix=".", suffix=".partial", dir=folder, ignore_cleanup_errors=True) as made:
            yield Path(made)
            _move(Path(made), folder)
    except BaseException:
        with contextlib.suppress(OSError):  # not empty: not ours to take away
            for path in missing:
                path.rmdir()
        raise


def check(folder: Path) -> None:
    """Raises now, rather than after minutes of work, if a folder cannot be made or written to. Leaves nothing."""
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
    """All files, those of folders as well; files of the same name are replaced, each in one step."""
    for path in sorted(source.iterdir()):
        own = target / path.name
        if path.is_dir():
            own.mkdir(exist_ok=True)
            _move(path, own)
        else:
            path.replace(own)
