"""Errors a user can cause, each one line: the field, the value, what is allowed."""

import difflib
import operator
import typing
from collections.abc import Iterable
from typing import Any


class FedtideError(Exception):
    """Base of every error that is the input's fault; the command line exits with 2 on it."""


class InvalidInput(FedtideError, ValueError):
    """A value that cannot be used: names the field, the value and what is allowed."""

    def __init__(self, field: str, value: object, allowed: str):
        super().__init__(f"{field} = {_short(value)}: must be {allowed}")


class DoesNotFit(FedtideError, MemoryError):
    """A run whose memory estimate exceeds what the device has."""


class CheckpointError(FedtideError):
    """A checkpoint that is damaged, or that belongs to another run."""


def whole(field: str, value: object, low: int) -> int:
    """The value as a Python int of at least `low`; NumPy's integers count, booleans and floats do not."""
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)  # pyright: ignore[reportArgumentType]
    except TypeError:
        number = low - 1
    require(number >= low and not isinstance(value, bool), field, value, f"a whole number, {low} or more")
    return number


def require(condition: bool, field: str, value: object, allowed: str) -> None:
    """Raises `InvalidInput` unless the condition holds."""
    if not condition:
        raise InvalidInput(field, value, allowed)


def check_one_of(field: str, value: object, choices: Any) -> None:
    """Raises `InvalidInput` unless the value is one of the literals of the type `choices`."""
    known = typing.get_args(choices)
    if value not in known:
        raise InvalidInput(field, value, one_of(str(value), known))


def one_of(word: str, known: Iterable[str]) -> str:
    """What is allowed, for `InvalidInput`: all known words, and which of them is nearest."""
    known = sorted(known)
    hint = _nearest(word, known)
    return f"one of {', '.join(known)}" + (f" ({hint})" if hint else "")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A suffix naming the nearest known word and then all of them."""
    known = sorted(known)
    return f"{_nearest(word, known)} known: {', '.join(known)}".lstrip()


def _nearest(word: str, known: list[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"did you mean '{close[0]}'?" if close else ""


def _short(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."
