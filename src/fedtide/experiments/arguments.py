"""Calling builders with the values of a configuration: names and types come from the builder's signature."""

import contextlib
import functools
import inspect
import json
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union

import jax
import numpy as np
from pydantic import PlainValidator, PydanticSchemaGenerationError, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from fedtide.errors import FedtideError, did_you_mean
from fedtide.experiments.config import in_json
from fedtide.experiments.place import Place
from fedtide.kinds import alternatives
from fedtide.types import Work

Build = Callable[..., Any]

_ARRAYS = (np.ndarray, jax.Array)
_NUMBERS = "a number or a list of numbers"
_IN_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", Path: "a file name"}


class Context(NamedTuple):
    """What building needs in addition to the table."""

    folder: Path = Path()  # base of relative file names
    kinds: Mapping[Any, Mapping[str, Build]] = types.MappingProxyType({})
    """The builders of each kind of part, by name. Arguments of these kinds are tables with a name."""
    work: Work | None = None  # passed to builders that take local work


def named(
    written: Any,
    catalogue: Mapping[str, Build],
    place: Place,
    context: Context,
    own: tuple[str, ...] = (),
    defaults: Mapping[str, Any] | None = None,
) -> Any:
    """The object that a table names, built from its other keys. `own` are keys of the table that are not arguments."""
    if not isinstance(written, dict):
        raise place.invalid(written, "a table with a name and its arguments")
    name = written.get("name")
    if name is None:
        raise place.key("name").error(f"missing; known: {', '.join(sorted(catalogue))}")
    if name not in catalogue:
        raise place.key("name").error(f"'{name}' is unknown; {did_you_mean(str(name), catalogue)}")
    own = ("name", *own)
    arguments = {key: value for key, value in written.items() if key not in own}
    return call(catalogue[name], arguments, place, context, own, defaults)


def call(
    build: Build,
    written: Mapping[str, Any],
    place: Place,
    context: Context = Context(),
    own: tuple[str, ...] = (),
    defaults: Mapping[str, Any] | None = None,
) -> Any:
    """Calls `build` with the written arguments, checked against its signature; `defaults` for other parameters."""
    known = parameters(build, context)
    for key in written:
        if key not in known:
            raise place.key(key).error(f"unknown; {did_you_mean(key, {*known, *own})}")
    values = {key: value for key, value in (defaults or {}).items() if key in known}
    values |= {key: _argument(value, known[key].annotation, place.key(key), context) for key, value in written.items()}
    for name, parameter in known.items():
        if name not in values and parameter.default is inspect.Parameter.empty:
            raise place.key(name).error(f"missing; must be {in_words(parameter.annotation)}")
    if context.work is not None:
        values |= {name: context.work for name, hint in typing.get_type_hints(build).items() if hint is Work}
    try:
        return build(**values)
    except FedtideError as error:
        raise place.error(str(error)) from error
    except OSError as error:
        raise place.error(f"{error.filename or ''}: {error.strerror or error}".removeprefix(": ")) from error


def parameters(build: Build, context: Context = Context()) -> dict[str, inspect.Parameter]:
    """The parameters that a configuration can set, with their types: plain values and tables that name a part."""
    hints = typing.get_type_hints(build)
    typed = {n: p.replace(annotation=hints.get(n, Any)) for n, p in inspect.signature(build).parameters.items()}
    return {n: p for n, p in typed.items() if plain(p.annotation) or _kind(p.annotation, context) is not None}


def convert(value: Any, hint: Any, place: Place, folder: Path = Path()) -> Any:
    """A TOML value converted to the type of the hint, or an error with the allowed values."""
    try:
        # In JSON mode, pydantic is strict about types and still accepts a list as a tuple and text as a path.
        result = _adapter(plain(hint)).validate_json(json.dumps(value, default=in_json), strict=True)
    except ValidationError:
        raise place.invalid(value, in_words(hint)) from None
    if isinstance(result, Path | str) and is_file(hint):
        return folder / result
    if isinstance(result, list) and any(kind in alternatives(hint) for kind in _ARRAYS):
        with contextlib.suppress(ValueError):  # lists of unequal length stay lists
            return np.asarray(result)
    return result


def is_file(hint: Any) -> bool:
    """Whether values of this type are file names."""
    return Path in alternatives(hint)


def in_words(hint: Any) -> str:
    """The allowed values, in words."""
    words: list[str] = []
    for member in alternatives(hint):
        origin = typing.get_origin(member)
        if member in _ARRAYS:
            words.append(_NUMBERS)
        elif origin is Literal:
            words += [json.dumps(v) if isinstance(v, str) else str(v) for v in typing.get_args(member)]
        elif origin is not None:
            words.append(_collection(origin, typing.get_args(member)))
        elif member in _IN_WORDS:
            words.append(_IN_WORDS[member])
        elif member not in (type(None), Any):
            words.append("a table with a name")
    if _NUMBERS in words:
        words = [word for word in words if word not in (_IN_WORDS[int], _IN_WORDS[float])]
    return " or ".join(dict.fromkeys(words)) or "a value"


def _collection(origin: Any, members: tuple[Any, ...]) -> str:
    if not issubclass(origin, tuple | Sequence):
        return "a table"
    kinds = [member for member in members if member is not ...]
    inner = typing.get_origin(kinds[0])
    if len(kinds) == 1 and inner is not None:
        return f"a list of {_collection(inner, typing.get_args(kinds[0])).replace('a list', 'lists', 1)}"
    count = f"{len(members)} " if origin is tuple and ... not in members else ""
    name = _IN_WORDS.get(kinds[0], "value").removeprefix("a ") if len(set(kinds)) == 1 else "value"
    return f"a list of {count}{name}" + ("s" if name.endswith(("number", "value")) else "")


def plain(hint: Any) -> Any:
    """The hint with arrays as numbers and without types that TOML cannot express; None if nothing remains."""
    members = []
    for member in alternatives(hint):
        if member in _ARRAYS:
            members.append(Annotated[Any, PlainValidator(_numbers)])
        elif member is not type(None) and _writable(member):
            members.append(member)
    return Union[tuple(members)] if members else None  # noqa: UP007


def _argument(value: Any, hint: Any, place: Place, context: Context) -> Any:
    kind = _kind(hint, context)
    if kind is not None and (isinstance(value, dict) or not plain(hint)):
        return named(value, context.kinds[kind], place, context)
    return convert(value, hint, place, context.folder)


def _kind(hint: Any, context: Context) -> Any:
    return next((kind for kind in context.kinds if kind in alternatives(hint)), None)


@functools.cache
def _writable(hint: Any) -> bool:
    if hint is Any:
        return True
    if inspect.isclass(hint) and typing.get_origin(hint) is None:
        return issubclass(hint, int | float | str | Path | dict)
    if typing.get_origin(hint) is typing.get_origin(Callable[..., Any]):
        return False
    try:
        _adapter(hint)
    except (PydanticSchemaGenerationError, PydanticUserError):
        return False
    return True


@functools.cache
def _adapter(hint: Any) -> TypeAdapter[Any]:
    return TypeAdapter(hint)


def _numbers(value: Any) -> Any:
    """A number or nested lists of numbers."""
    if isinstance(value, list):
        return [_numbers(v) for v in value]
    if not isinstance(value, int | float):
        raise ValueError("not a number")
    return value
