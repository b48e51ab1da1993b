"""Files that are whole or not there, in folders that belong to one process at a time."""

import errno
import logging
import os
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from fedtide.errors import FedtideError

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None

log = logging.getLogger("fedtide")

_PARTIAL = ".partial"
_LOCK = "fedtide.lock"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_UNWRITABLE = _FULL | {errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO}
_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}


def remove_partial(folder: Path, names: Iterable[str] = ("*",)) -> None:
    """Removes what a killed process left half-written below a folder, of the files with these names."""
    for name in names:
        for leftover in list(folder.rglob(f".{name}.*{_PARTIAL}")):
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)


def vacant(folder: Path) -> bool:
    """Whether a run can begin there: no such folder, an empty one, or one with leftovers of a run that never began."""
    if not folder.is_dir():
        return not folder.exists()
    return all(path.name == _LOCK or path.match(f".*{_PARTIAL}") for path in folder.iterdir())


@contextmanager
def atomic(path: Path | str) -> Iterator[Path]:
    """Yields a temporary path near `path`; on success it takes that name in one step, on failure it is removed.

    A file that cannot be written is an OSError that names it, whoever wrote it.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # In a folder of its own: safetensors, too, writes to a temporary file beside the one it is given.
    near = {"dir": path.parent, "prefix": f".{path.name}.", "suffix": _PARTIAL}
    try:
        with tempfile.TemporaryDirectory(**near, ignore_cleanup_errors=True) as own:
            temporary = Path(own, path.name)
            yield temporary
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            temporary.chmod(0o644)
            temporary.replace(path)
    except Exception as error:
        number, named = _number(error), getattr(error, "filename", None)
        other = named is not None and _PARTIAL not in str(named)  # the fault of another file
        unnamed = getattr(error, "errno", None) is not None and named is None and number not in _FULL  # of anything
        if number not in _UNWRITABLE or other or unnamed:
            raise
        raise OSError(number, os.strerror(number), str(path)) from error


def _number(error: Exception) -> int | None:
    """The system's number of a fault; what is written in Rust (polars, safetensors) says it in its message only."""
    if getattr(error, "errno", None) is not None:
        return error.errno  # pyright: ignore[reportAttributeAccessIssue]
    said = re.search(r"\(os error (\d+)\)", str(error))
    return int(said[1]) if said else None


@contextmanager
def alone(folder: Path, busy: str) -> Iterator[None]:
    """Keeps a folder to the caller until the block or the process ends; raises `FedtideError` where another has it.

    The lock is a `flock`: the system frees it when its process (with what that has forked) dies, however that happens;
    it excludes other threads of this process, too; and closing another descriptor of the file does not free it, as it
    would a POSIX record lock. Over NFS, Linux turns it into a byte-range lock on the server, so other machines are
    excluded as well. Where there are no locks (Windows, some cluster file systems), nobody is.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield
        return
    path = folder / _LOCK
    with _locked(path, busy) as file:
        try:
            with suppress(OSError):  # the lock is held, whether or not the disk has room to say by whom
                file.truncate(0)
                file.write(f"PID {os.getpid()} on {socket.gethostname()} since {time.strftime('%F %T')}".encode())
                os.fsync(file.fileno())
            yield
        finally:
            with suppress(OSError):
                path.unlink()  # while it is locked: whoever waits for it sees below that it has gone


def _locked(path: Path, busy: str) -> BinaryIO:
    assert fcntl is not None
    while True:
        try:
            file = path.open("ab+", buffering=0)
        except PermissionError:  # another account left it; reading is enough for a lock
            file = path.open("rb", buffering=0)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(path.stat(), os.fstat(file.fileno())):
                return file
        except (BlockingIOError, PermissionError):  # the latter on SMB
            time.sleep(0.1)  # its holder may just be saying who it is
            file.seek(0)
            holder = file.read().decode(errors="replace")
            file.close()
            raise FedtideError(f"{path.parent}: {busy}" + (f" ({holder})" if holder else "")) from None
        except OSError as error:
            if error.errno in _NO_LOCKS:
                log.warning("%s: this file system has no locks; start no second process in it", path.parent)
                return file
            if error.errno not in (errno.ENOENT, errno.ESTALE):
                file.close()
                raise
        file.close()  # its last holder has removed it since it was opened
