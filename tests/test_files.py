"""Files that are whole or not there; folders that belong to one process at a time."""

import errno
import os
import resource
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import numpy as np
import polars as pl
import pytest
from safetensors import SafetensorError
from safetensors.numpy import save_file

from fedtide.errors import FedtideError
from fedtide.files import alone, atomic, remove_partial, vacant

WRITERS = {
    "python": lambda path: path.write_bytes(bytes(100_000)),
    "polars": lambda path: pl.DataFrame({"a": np.random.default_rng(0).random(100_000)}).write_parquet(path),
    "safetensors": lambda path: save_file({"a": np.zeros(100_000)}, path),
}


@contextmanager
def short_files():
    """No file can become longer than a thousand bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", place], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("may not mount a file system")
    yield place
    subprocess.run(["umount", place], check=True)


def write(path, writer):
    with atomic(path) as temporary:
        WRITERS[writer](temporary)


@pytest.mark.parametrize("writer", WRITERS)
def test_a_file_that_cannot_be_written_is_named(tmp_path, writer):
    path = tmp_path / "file"
    path.write_text("before")
    with short_files(), pytest.raises(OSError, match="File too large") as fault:
        write(path, writer)
    assert (fault.value.errno, fault.value.filename) == (errno.EFBIG, str(path))
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("file", "before")]


@pytest.mark.parametrize("writer", WRITERS)
def test_a_full_disk_is_named(small_disk, writer):
    with pytest.raises(OSError, match="No space left on device") as fault:
        write(small_disk / "file", writer)
    assert (fault.value.errno, fault.value.filename) == (errno.ENOSPC, str(small_disk / "file"))
    assert list(small_disk.iterdir()) == []


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EDQUOT, errno.ENOSPC])
@pytest.mark.parametrize("kind", [SafetensorError, pl.exceptions.ComputeError, PermissionError])
def test_what_libraries_say_in_words_is_understood(tmp_path, kind, number):
    with pytest.raises(OSError, match=os.strerror(number)) as fault, atomic(tmp_path / "file"):
        raise kind(f"while writing: {os.strerror(number)} (os error {number})")
    assert (fault.value.errno, fault.value.filename) == (number, str(tmp_path / "file"))


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError(errno.ECONNRESET, "reset"),
        PermissionError(errno.EACCES, "denied", "other"),
        ValueError("no"),
    ],
)
def test_other_faults_stay_as_they_are(tmp_path, error):
    with pytest.raises(type(error)) as found, atomic(tmp_path / "file"):
        raise error
    assert found.value is error
    assert list(tmp_path.iterdir()) == []


def test_leftovers_are_removed(tmp_path):
    """What libraries write beside the file they are given as well."""
    code = (
        "import os, sys, fedtide.files as f\nwith f.atomic(sys.argv[1]) as t: (t.parent / '.tmpX').touch(); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a" / "file")], check=True)
    assert len(list((tmp_path / "a").rglob("*"))) == 2
    assert vacant(tmp_path / "a")
    remove_partial(tmp_path)
    assert list((tmp_path / "a").iterdir()) == []


def test_vacant(tmp_path):
    assert vacant(tmp_path / "none")
    assert vacant(tmp_path)
    (tmp_path / "thesis.tex").touch()
    assert not vacant(tmp_path)
    assert not vacant(tmp_path / "thesis.tex")
    assert vacant(tmp_path, "*.md", "*.tex")
    assert not vacant(tmp_path, "*.md")


def test_a_folder_is_held_by_one(tmp_path):
    """Other threads are excluded, too."""
    refused = []

    def enter():
        try:
            with alone(tmp_path, "taken"):
                refused.append(None)
        except FedtideError as error:
            refused.append(str(error))

    with alone(tmp_path, "taken"):
        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        assert vacant(tmp_path)
        content = next(tmp_path.iterdir()).read_text()
    enter()
    assert refused == [f"{tmp_path}: taken ({content})", None]
    assert content.startswith("PID ")
    assert list(tmp_path.iterdir()) == []


def test_a_killed_process_frees_its_folder(tmp_path):
    code = (
        "import sys, time, pathlib, fedtide.files as f\n"
        "with f.alone(pathlib.Path(sys.argv[1]), ''): print(flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(FedtideError, match=rf"taken \(PID {process.pid} on "), alone(tmp_path, "taken"):
            pass
        process.send_signal(signal.SIGKILL)
    assert len(list(tmp_path.iterdir())) == 1
    with alone(tmp_path, "taken"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_its_holder_has_just_removed_is_not_taken_for_one(tmp_path, monkeypatch):
    """Opened before its holder removed it, locked after: the file is nobody's, and another is locked instead."""
    import fcntl

    calls = []

    def flock(file, how):
        if not calls:
            next(tmp_path.iterdir()).unlink()
        calls.append(how)
        return before(file, how)

    before = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", flock)
    with alone(tmp_path, "taken"), pytest.raises(FedtideError, match="taken"), alone(tmp_path, "taken"):
        pass
    assert len(calls) == 3


def test_without_locks_a_warning_says_so(tmp_path, monkeypatch, caplog):
    import fcntl

    def flock(file, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with caplog.at_level("WARNING", "fedtide"), alone(tmp_path, "taken"):
        assert "does not support locks" in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_leftovers_are_removed_whether_files_or_folders(tmp_path):
    (tmp_path / ".run.json.a.partial").write_text("")
    (tmp_path / ".run.json.b.partial").mkdir()
    (tmp_path / ".report.html.c.partial").mkdir()
    remove_partial(tmp_path, ["run.json"])
    assert [path.name for path in tmp_path.iterdir()] == [".report.html.c.partial"]
    remove_partial(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_fault_that_names_no_file_is_not_blamed_on_this_one(tmp_path):
    with pytest.raises(OSError, match="Input/output") as fault, atomic(tmp_path / "a"):
        raise OSError(errno.EIO, "Input/output error")
    assert fault.value.filename is None
