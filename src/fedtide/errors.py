"""Errors caused by invalid input, each in one line: the field, the value, what is allowed."""

import difflib
import operator
import typing
from collections.abc import Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np


class FedtideError(Exception):
    """Base class of errors caused by the input; the command line exits with status 2."""


class InvalidInput(FedtideError, ValueError):
    """An invalid value: the message contains the field, the value and what is allowed."""

    def __init__(self, field: str, value: object, allowed: str):
        super().__init__(f"{spelled(field)} = {_short(value)}: must be {' '.join(allowed.split())}")


_SPELLING: ContextVar[Mapping[str, str] | None] = ContextVar("spelling", default=None)


@contextmanager
def spelling(names: Mapping[str, str]) -> Iterator[None]:
    """Within the block, errors call these arguments by other names: a command's options instead of Python's names."""
    token = _SPELLING.set(names)
    try:
        yield
    finally:
        _SPELLING.reset(token)


def spelled(argument: str) -> str:
    """The name of an argument as its user knows it: see `spelling`."""
    return (_SPELLING.get() or {}).get(argument, argument)


class DoesNotFit(FedtideError, MemoryError):
    """A run whose estimated memory exceeds that of the device."""


class CheckpointError(FedtideError):
    """A checkpoint that is damaged or belongs to another run."""


LARGEST = 2**31 - 1  # compiled programs count with 32-bit integers


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
    """The value, with a Python int converted to a float: a real, finite number from `low` (or `above` it) to `high` (or
    `below` it).

    ∞ is valid only if `infinite`; strings, None, booleans and NaN never are. An array is valid if all its elements are,
    since a part's numbers may be a batch axis. JAX tracers have no value to check and pass. `allowed` replaces the
    description of the range in the message.
    """
    from jax import Array  # only here: the command line catches errors without JAX
    from jax.core import Tracer

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
    """Raises `InvalidInput` unless the value is a boolean ("no" and 0 are not)."""
    require(isinstance(value, bool | np.bool_), field, value, "True or False")


_KINDS = {
    "work": ("minibatch", "local work such as Steps()"),
    "schedule": ("factor", "a schedule such as Constant()"),
    "estimator": ("knows", "an estimator such as Bayesian()"),
    "participation": ("decide", "a participation policy such as Everyone()"),
    "solver": ("train", "a solver such as Sgd()"),
    "aggregation": ("combine", "an aggregation rule such as WeightedSum()"),
    "server": ("step", "a server such as Optimiser()"),
    "devices": ("seconds", "devices such as Devices(seconds_per_step=0.1)"),
    "jitter": ("factor", "a jitter such as Lognormal()"),
    "barrier": ("refills", "a barrier such as WaitForAll()"),
    "clock": ("leaving", "a clock such as Clock(Devices(seconds_per_step=0.1))"),
    "staleness": ("discount", "a function of staleness such as Polynomial()"),
}


_WITH_STATE = ("estimator", "participation", "solver", "aggregation", "server")


def check_kind(field: str, value: object, kind: str) -> None:
    """Raises `InvalidInput` unless the value is a part of this kind, recognised by an attribute unique to the kind."""
    attribute, allowed = _KINDS[kind]
    require(hasattr(value, attribute) and not isinstance(value, type), field, value, allowed)
    require(kind not in _WITH_STATE or hasattr(value, "init"), field, value, f"{allowed}, with a method init")
    check_part(field, value)


def check_part(field: str, value: object) -> None:
    """Raises `InvalidInput` for an object whose class is not a part: JAX would take it for a number."""
    import jax  # only here: see `number`

    unknown = jax.tree.structure(value) == jax.tree.structure(0)
    require(not unknown, field, type(value).__name__, "a part: decorate its class with @fedtide.part")


def require(condition: bool, field: str, value: object, allowed: str) -> None:
    """Raises `InvalidInput` unless the condition holds."""
    if not condition:
        raise InvalidInput(field, value, allowed)


def floats(field: str, value: Any, allowed: str = "numbers") -> np.ndarray:
    """The value as float64."""
    try:
        return np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(field, value, allowed) from None


def require_each(fine: np.ndarray, field: str, values: np.ndarray, allowed: str) -> None:
    """Raises `InvalidInput` for the first entry where `fine` is False."""
    if not fine.all():
        place = np.unravel_index(int(fine.argmin()), fine.shape)
        require(False, field + "".join(f"[{i}]" for i in place), values[place].item(), allowed)


def membership_of(field: str, value: Any, groups: int | None = None) -> np.ndarray:
    """A checked vector of group numbers 0 … groups − 1, one for each client."""
    try:
        member = np.asarray(value)
    except ValueError:
        member = np.array(np.nan)
    whole = member.ndim == 1 and member.size > 0 and member.dtype.kind in "iu"
    require(whole, field, value, "a whole number for each client")
    fine = (member >= 0) & (member < (np.inf if groups is None else groups))
    require_each(fine, field, member, "0 or more" if groups is None else f"in 0 … {groups - 1}")
    return member.astype(np.int32)


def check_one_of(field: str, value: object, choices: Any) -> None:
    """Raises `InvalidInput` unless the value is one of the choices: names, or the literals of a type."""
    known = typing.get_args(choices) or choices
    if not isinstance(value, str | int | None) or value not in known:
        raise InvalidInput(field, value, one_of(str(value), known))


def check_one_each(field: str, values: Sized, clients: int | None) -> None:
    """Raises `InvalidInput` unless there are as many values as clients, where it is known how many those are."""
    require(clients in (None, len(values)), field, f"{len(values)} entries", f"one for each of {clients} clients")


def one_of(word: str, known: Iterable[str]) -> str:
    """What is allowed, for `InvalidInput`: all known words, and the closest one."""
    known = sorted(known)
    hint = _nearest(word, known)
    return f"one of {', '.join(known)}" + (f" ({hint})" if hint else "")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a message: the closest known word, then all of them."""
    known = sorted(known)
    return f"{_nearest(word, known)} known: {', '.join(known)}".lstrip()


def _range(low: float | None, above: float | None, high: float | None, below: float | None) -> str:
    """A range in words: "0 or more", "positive", "in [0, 1)", or "" without limits."""
    start = f"({above:g}" if above is not None else f"[{low:g}" if low is not None else "(−∞"
    end = f"{below:g})" if below is not None else f"{high:g}]" if high is not None else "∞)"
    words = {"[0, ∞)": "0 or more", "(0, ∞)": "positive", "(−∞, ∞)": ""}
    return words.get(f"{start}, {end}", f"in {start}, {end}")


_ALIASES = {"lr": "rate", "eta": "rate", "step_size": "rate", "num_clients": "clients", "num_rounds": "rounds"}
"""Names that other libraries have for ours."""


def _nearest(word: str, known: list[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    # `learning_rate` is less similar to `rate` than most typing errors are.
    close = close or [name for name in known if word.endswith(f"_{name}") or name == _ALIASES.get(word)]
    return f"did you mean '{close[0]}'?" if close else ""


def _short(value: object) -> str:
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python converts integers of at most 4,300 digits to text
        text = "an integer of more than 4,300 digits"
    return text if len(text) <= 80 else text[:77] + "..."
