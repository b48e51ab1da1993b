"""What goes wrong ends in one line and a status."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer

from fedtide.cli import main
from fedtide.cli.faults import STOPPED, explained
from fedtide.cli.progress import announced
from fedtide.errors import FedtideError, InvalidInput


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


def test_ctrl_c_while_the_command_line_is_imported_is_one_line(tmp_path):
    """A copy of the entry point, in a package in whose command line Ctrl-C arrives."""
    (tmp_path / "fedtide").mkdir()
    (tmp_path / "fedtide" / "__init__.py").touch()
    (tmp_path / "fedtide" / "cli.py").write_text("raise KeyboardInterrupt")
    source = Path(__file__).parents[2] / "src" / "fedtide" / "__main__.py"
    (tmp_path / "fedtide" / source.name).write_text(source.read_text("utf-8"), "utf-8")
    command = [sys.executable, "-m", "fedtide"]
    path = os.environ | {"PYTHONPATH": str(tmp_path)}
    ended = subprocess.run(command, cwd=tmp_path, env=path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (STOPPED, "", "stopped\n")


def test_the_command_is_the_command_line(monkeypatch, capsys):
    from fedtide.__main__ import main as command

    monkeypatch.setattr(sys, "argv", ["fedtide", "--version"])
    with pytest.raises(SystemExit):
        command()
    assert capsys.readouterr().out.startswith("fedtide 0.")


def test_what_takes_long_is_announced(capsys):
    with announced("building the problem", after=30):
        pass
    assert capsys.readouterr().err == ""
    with announced("building the problem", after=0.01):
        time.sleep(0.2)
    assert capsys.readouterr().err == "building the problem …\n"


def test_errors_about_arguments_name_the_options_of_the_command(capsys):
    app = typer.Typer()

    @app.command()
    def fit(context: typer.Context, column: str | None = None) -> None:
        with explained(context=context, columns="--column"):
            raise InvalidInput("columns", column, "a name")

    with pytest.raises(SystemExit):
        app(["--column", "x"])
    assert capsys.readouterr().err == "error: --column = 'x': must be a name\n"
    with pytest.raises(InvalidInput, match=r"^columns = 1: must be a name$"):
        raise InvalidInput("columns", 1, "a name")


STUBBORN = """if True:
    import contextlib, time
    from fedtide.cli.progress import interruptible
    with interruptible(contextlib.nullcontext(lambda *done: None), within=0.5):
        print("begun", flush=True)
        time.sleep(60)  # a long segment: no progress is reported
        time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_keeps_its_work_stops_soon(number):
    process = subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    begun = time.monotonic()
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == STOPPED
    assert time.monotonic() - begun < 10  # half a second on a machine that is not busy
    assert b"what is finished has been kept; the same command continues from there" in errors
