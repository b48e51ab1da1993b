"""What goes wrong ends in one line and a status."""

import errno

import pytest
import typer

from fedtide.cli.faults import explained
from fedtide.errors import FedtideError


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (FedtideError("rate = -1: must\nbe 0 or more"), 2, "error: rate = -1: must be 0 or more"),
        (KeyboardInterrupt(), 130, "stopped; go on with: fedtide resume DIR"),
        (OSError(errno.ENOSPC, "No space left on device", "a/b"), 1,
         "error: a/b: No space left on device; nothing was lost; free space and run: fedtide resume DIR"),
        (PermissionError(errno.EACCES, "Permission denied", "a/b"), 1,
         "error: a/b: Permission denied; nothing was lost; mend it and run: fedtide resume DIR"),
    ],
)  # fmt: skip
def test_one_line_and_a_status(folder, capsys, error, status, line):
    with pytest.raises(typer.Exit) as stopped, explained(folder):
        raise error
    assert stopped.value.exit_code == status
    output = capsys.readouterr()
    assert output.err == line.replace("DIR", str(folder)) + "\n"
    assert output.out == ""


def test_nothing_to_resume_is_not_offered(tmp_path, capsys):
    with pytest.raises(typer.Exit), explained(tmp_path):
        raise KeyboardInterrupt
    with pytest.raises(typer.Exit), explained():
        raise OSError(errno.ENOSPC, "No space left on device", "a")
    assert capsys.readouterr().err == "stopped\nerror: a: No space left on device\n"


def test_bugs_and_closed_pipes_are_not_hidden():
    for error in (ZeroDivisionError, BrokenPipeError):
        with pytest.raises(error), explained():
            raise error
