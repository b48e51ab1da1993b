"""What goes wrong ends in one line and a status."""

import errno
import sys

import pytest
import typer

from fedtide.cli import main
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
        (KeyboardInterrupt(), 130, "stopped; resume with: fedtide resume DIR"),
        (OSError(errno.ENOSPC, "No space left on device", "a/b"), 1,
         "error: a/b: No space left on device; the last checkpoint is intact: free some space, then run: "
         "fedtide resume DIR"),
        (MemoryError("Unable to allocate 6.94 EiB"), 1, "error: not enough memory (Unable to allocate 6.94 EiB)"),
        (PermissionError(errno.EACCES, "Permission denied", "a/b"), 1,
         "error: a/b: Permission denied; the last checkpoint is intact: fix this, then run: fedtide resume DIR"),
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


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["rnu"], "error: No such command 'rnu'."),
        (["run"], "error: Missing argument 'CONFIG.toml'."),
        (["run", "my.toml", "--rounds", "3"], "error: No such option"),
        (["fleet", "recommend", "here", "--rounds", "many"], "error: Invalid value for '--rounds'"),
    ],
)
def test_a_command_that_is_not_one_is_one_line(arguments, line, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["fedtide", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr()
    assert ended.value.code == 2
    assert printed.out == ""
    assert printed.err.startswith(line)
    assert printed.err.endswith(" --help\n")
    assert printed.err.count("\n") == 1


def test_without_a_command_the_help_appears(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["fedtide", "fleet"])
    with pytest.raises(SystemExit):
        main()
    printed = capsys.readouterr()
    assert "recommend" in printed.out + printed.err
