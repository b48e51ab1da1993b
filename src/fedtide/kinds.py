"""Arguments of the wrong kind: whichever public function fails on one names it in one line."""

import collections.abc
import functools
import inspect
import os
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, Union

import numpy as np
import numpy.typing as npt

from fedtide.errors import LARGEST, FedtideError, InvalidInput

P = ParamSpec("P")
T = TypeVar("T")

_FAULTS = (TypeError, AttributeError, ValueError, LookupError, ArithmeticError)
"""What Python and NumPy raise for an argument of the wrong kind."""

_PLAIN: dict[Any, str] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
}


def kinds_checked(function: Callable[P, T]) -> Callable[P, T]:
    """The function; if it fails because an argument is not of its annotated kind, `InvalidInput` names the argument.

    Nothing is checked unless the function fails, so that whatever works is accepted; other failures pass unchanged.

    >>> @kinds_checked
    ... def halves(clients: int) -> int:
    ...     return clients // 2
    >>> halves("ten")
    Traceback (most recent call last):
        ...
    fedtide.errors.InvalidInput: clients = 'ten': must be a whole number
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except FedtideError:
            raise
        except _FAULTS as error:
            fault = _wrong_kind(function, args, kwargs)
            if fault is None:
                raise
            raise fault from error

    return call


def kinds_checked_class(cls: type[T]) -> type[T]:
    """The class, with `kinds_checked` arguments of its constructor."""
    cls.__init__ = kinds_checked(cls.__init__)
    return cls


def _wrong_kind(function: Callable[..., Any], args: Iterable[Any], kwargs: Mapping[str, Any]) -> FedtideError | None:
    """The error for the first argument that is not of its annotated kind."""
    try:
        given = inspect.signature(function).bind(*args, **kwargs).arguments
    except TypeError:
        return None  # unknown or missing arguments: Python's own message says which
    for name, hint in _hints(function).items():
        if name in given and not _fits(given[name], hint):
            return InvalidInput(name, given[name], in_words(hint))
    return None


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of the arguments; those of a dataclass's constructor are its fields'."""
    try:
        hints = typing.get_type_hints(function)
    except NameError:  # of types that are imported for type checkers only
        hints = {name: hint for name, hint in inspect.get_annotations(function).items() if not isinstance(hint, str)}
    return {name: hint for name, hint in hints.items() if name != "return"}


def alternatives(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a hint. `Array | Any`, and what NumPy takes for an array, are arrays."""
    if typing.get_origin(hint) is Annotated:
        return alternatives(typing.get_args(hint)[0])
    if hint == npt.ArrayLike:
        return (np.ndarray,)
    if typing.get_origin(hint) in (Union, types.UnionType):
        members = tuple(inner for member in typing.get_args(hint) for inner in alternatives(member))
        return tuple(m for m in members if m is not Any) if any(m in _arrays() for m in members) else members
    return (hint,)


def _arrays() -> tuple[Any, ...]:
    from jax import Array

    return Array, np.ndarray


def _fits(value: Any, hint: Any) -> bool:
    from jax.core import Tracer  # only here: the command line imports this module without JAX

    return isinstance(value, Tracer) or any(_is(value, member) for member in alternatives(hint))


def _is(value: Any, hint: Any) -> bool:
    """Whether the value is of this kind, which is no union."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return True
    if hint in (None, type(None)):
        return value is None
    if hint is bool:
        return isinstance(value, bool | np.bool_)
    if hint is int:
        return _is_whole(value)
    if hint is float:
        return np.ndim(value) == 0 and np.asarray(value).dtype.kind in "iuf" if _is_number(value) else False
    if hint in _arrays():
        return _is_array(value)
    if hint is Path:
        return isinstance(value, str | os.PathLike)
    if origin is Literal:
        return any(type(value) is type(known) and value == known for known in inner)
    if collections.abc.Callable in (hint, origin):
        return callable(value)
    if getattr(hint, "_is_protocol", False):
        names = {name for base in hint.__mro__ if getattr(base, "_is_protocol", False) for name in _declared(base)}
        return not isinstance(value, type) and all(hasattr(value, name) for name in names)
    if isinstance(origin, type):
        return _is_collection(value, origin, inner)
    return isinstance(value, hint) if isinstance(hint, type) else True


def _declared(protocol: type) -> set[str]:
    """The members that a protocol declares."""
    names = {*vars(protocol), *getattr(protocol, "__annotations__", {})}
    return {name for name in names if not name.startswith("_")} | ({"__call__"} & names)


def _is_collection(value: Any, origin: type, inner: tuple[Any, ...]) -> bool:
    if isinstance(value, str | bytes):
        return False
    if issubclass(origin, Mapping):
        kinds = [(key, inner[0]) for key in value] + [(v, inner[1]) for v in value.values()] if _maps(value) else None
        return kinds is not None and all(_fits(item, kind) for item, kind in kinds)
    several = isinstance(value, _arrays()) and value.ndim > 0 and origin is not tuple
    if isinstance(value, _arrays()) != several or not (several or isinstance(value, origin)):
        return False
    items = [kind for kind in inner if kind is not ...]
    return len(items) != 1 or not isinstance(value, collections.abc.Sized) or all(_fits(v, items[0]) for v in value)  # pyright: ignore[reportGeneralTypeIssues]


def _maps(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_whole(value: Any) -> bool:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and abs(int(value)) <= LARGEST


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.generic, *_arrays())) and not isinstance(value, bool)


def _is_array(value: Any) -> bool:
    try:
        return np.asarray(value).dtype.kind in "biuf"
    except (TypeError, ValueError):  # lists of unequal length, for instance
        return False


def in_words(hint: Any) -> str:
    """The allowed kinds, in words.

    >>> in_words(int | None)
    'a whole number or None'
    """
    words: list[str] = []
    for member in sorted(alternatives(hint), key=lambda member: member is type(None)):
        origin = typing.get_origin(member)
        if member in _PLAIN:
            words.append(_PLAIN[member])
        elif member in _arrays():
            words.append("numbers")
        elif member is type(None):
            words.append("None")
        elif origin is Literal:
            words += [repr(choice) for choice in typing.get_args(member)]
        elif collections.abc.Callable in (member, origin):
            words.append("a function")
        elif isinstance(origin, type):
            words.append("a dictionary" if issubclass(origin, Mapping) else "a list of the right kind")
        else:
            name = getattr(member, "__name__", str(member))
            words.append(f"an object of type {name}")
    return " or ".join(dict.fromkeys(words))
