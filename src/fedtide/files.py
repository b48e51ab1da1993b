"""Files that are whole or not there."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PARTIAL = ".partial"


def remove_partial(folder: Path) -> None:
    """Removes what a killed process left half-written below a folder."""
    for leftover in folder.rglob(f".*{_PARTIAL}"):
        leftover.unlink()


@contextmanager
def atomic(path: Path | str) -> Iterator[Path]:
    """Yields a temporary path beside `path`; on success it takes that name in one step, on failure it is removed."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_PARTIAL)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
