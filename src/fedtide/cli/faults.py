"""Errors other than bugs end in one line and an exit status, never in a traceback."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NoReturn

import typer

from fedtide.errors import FedtideError, spelling

BAD_INPUT = 2
FAILED = 1
STOPPED = 130  # what shells report for Ctrl-C


@contextmanager
def explained(
    folder: Path | None = None, resume: str | None = None, context: typer.Context | None = None, **options: str
) -> Iterator[None]:
    """Turns errors into one line on stderr. After Ctrl-C it names the command that resumes: that of the run in
    `folder` if it has begun, otherwise `resume`.

    With the command's `context`, errors about arguments name the command's options of the same names, and the other
    `options`, by their arguments: `columns="--column"`.
    """
    flags = {} if context is None else {p.name: p.opts[0] for p in context.command.params if p.opts[0].startswith("-")}
    try:
        with spelling(flags | options) if flags else nullcontext():
            yield
    except FedtideError as error:
        _stop(f"error: {error}", BAD_INPUT)
    except KeyboardInterrupt:
        command = f"fedtide resume {folder}" if _resumable(folder) else resume
        _stop(f"stopped; resume with: {command}" if command else "stopped", STOPPED)
    except MemoryError as error:
        _stop(f"error: not enough memory{f' ({error})' if str(error) else ''}", FAILED)
    except BrokenPipeError:
        raise  # the reader of the output has closed it: click exits silently
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        line = f"error: {where}{error.strerror or error}"
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        if _resumable(folder):
            remedy = "free some space" if full else "fix this"
            line += f"; the last checkpoint is intact: {remedy}, then run: fedtide resume {folder}"
        _stop(line, FAILED)


def _resumable(folder: Path | None) -> bool:
    return folder is not None and (folder / "run.json").is_file()


def _stop(line: str, status: int) -> NoReturn:
    # Not through rich: an error stays on one line, whatever the width of the terminal.
    typer.echo(" ".join(line.split()), err=True)
    raise typer.Exit(status) from None
