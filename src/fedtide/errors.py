"""Errors a user can cause, each one line: the field, the value, what is allowed."""

import difflib
import operator
import typing
from collections.abc import Iterable
from typing import Any

import numpy as np
from jax import Array
from jax.core import Tracer


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


LARGEST = 2**31 - 1  # what compiled programs count with


def whole(field: str, value: object, low: int, high: int = LARGEST) -> int:
    """The value as a Python int from `low` to `high`; NumPy's integers count, booleans and floats do not."""
    try:
        number = operator.index(value)  # pyright: ignore[reportArgumentType]
    except TypeError:
        number = low - 1
    require(number >= low and not isinstance(value, bool), field, value, f"a whole number, {low} or more")
    require(number <= high, field, value, f"a whole number, {high:,} or less")
    return number


def number(
    field: str,
    value: Any,
    *,
    low: float | None = None,
    above: float | None = None,
    high: float | None = None,
    below: float | None = None,
    infinite: bool = False,
    allowed: str | None = None,
) -> Any:
    """The value, a float where it was a Python int: a real, finite number from `low` (or `above` it) to `high` (or
    `below` it). ∞ passes only if `infinite`; texts, None, booleans and NaN never do. Arrays do where all in them does:
    a part's numbers may be a batch axis. What JAX traces cannot be looked at, and passes. `allowed` says it in words.
    """
    if isinstance(value, Tracer):
        return value
    plain = isinstance(value, int | float | np.generic | np.ndarray | Array)
    array = np.asarray(value if plain else None)
    words = allowed or _range(low, above, high, below)
    real = array.dtype.kind in "iuf" and bool((np.isfinite(array) | (infinite & ~np.isnan(array))).all())
    if not real:
        kind = "a number" if infinite else "a finite number"
        raise InvalidInput(field, value, allowed or (f"{kind}, {words}" if words else kind))
    limits = ((low, np.greater_equal), (above, np.greater), (high, np.less_equal), (below, np.less))
    inside = all(limit is None or bool(within(array, limit).all()) for limit, within in limits)
    require(inside, field, value, words)
    return float(value) if isinstance(value, int) else value


def flag(field: str, value: object) -> None:
    """Raises `InvalidInput` unless the value is a boolean: "no" and 0 are not."""
    require(isinstance(value, bool | np.bool_), field, value, "True or False")


_KINDS = {
    "work": ("minibatch", "local work, as Steps() is"),
    "schedule": ("factor", "a schedule, as Constant() is"),
    "estimator": ("knows", "an estimator, as Bayesian() is"),
    "participation": ("decide", "a participation policy, as Everyone() is"),
    "solver": ("train", "a solver, as Sgd() is"),
    "aggregation": ("combine", "an aggregation rule, as WeightedSum() is"),
    "server": ("step", "a server, as Optimiser() is"),
}


def check_kind(field: str, value: object, kind: str) -> None:
    """Raises `InvalidInput` unless the value is a part of that kind, told by the attribute that only this kind has."""
    attribute, allowed = _KINDS[kind]
    require(hasattr(value, attribute) and not isinstance(value, type), field, value, allowed)


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


def _range(low: float | None, above: float | None, high: float | None, below: float | None) -> str:
    """In words where there are some: "0 or more", "positive", "in [0, 1)"; nothing where there is no limit."""
    start = f"({above:g}" if above is not None else f"[{low:g}" if low is not None else "(−∞"
    end = f"{below:g})" if below is not None else f"{high:g}]" if high is not None else "∞)"
    words = {"[0, ∞)": "0 or more", "(0, ∞)": "positive", "(−∞, ∞)": ""}
    return words.get(f"{start}, {end}", f"in {start}, {end}")


def _nearest(word: str, known: list[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"did you mean '{close[0]}'?" if close else ""


def _short(value: object) -> str:
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python writes out integers of up to 4,300 digits
        text = "an integer of more than 4,300 digits"
    return text if len(text) <= 80 else text[:77] + "..."
