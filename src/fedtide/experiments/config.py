"""Experiments as TOML: typed and frozen, with errors that contain file, path, value and what is allowed.

A configuration contains only what its author wrote; defaults remain in the parts. It names a problem, an availability
process and methods of the catalogues with their arguments, and the length of the run, as demo.toml does.
"""

import json
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import jax
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, StringConstraints, ValidationError

from fedtide.errors import did_you_mean
from fedtide.experiments.place import Place
from fedtide.kinds import kinds_checked
from fedtide.simulation.setup import MOST_ROUNDS, MOST_SEEDS
from fedtide.tomls import dumps

Word = Annotated[str, StringConstraints(min_length=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Positive = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]
Rounds = Annotated[int, Field(ge=1, le=MOST_ROUNDS)]
Seeds = Annotated[int, Field(ge=1, le=MOST_SEEDS)] | Annotated[tuple[Seed, ...], Field(min_length=1)]
_ROUNDS = f"a whole number from 1 to {MOST_ROUNDS:,}"
_SEEDS = f"a number of seeds, 1 to {MOST_SEEDS:,}, or a list of different seeds in [0, 2³²)"

T = TypeVar("T", bound=BaseModel)


class Table(BaseModel):
    """A table of the configuration. Error messages quote the description of a field as what is allowed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Choice(Table):
    """An entry of a catalogue by its name; the other keys are its arguments."""

    model_config = ConfigDict(extra="allow")

    name: Word = Field(description="a name of the catalogue")

    @property
    def arguments(self) -> dict[str, Any]:
        """All keys except those that the configuration defines."""
        return dict(self.model_extra or {})


class DrawnWork(Table):
    """Devices of different speeds: steps or epochs drawn from low to high, in each round or once per client."""

    low: Count
    high: Count
    fixed: bool = False


class LocalTable(Table):
    """Local work: steps or epochs, and the minibatch."""

    steps: Count | tuple[Count, ...] | DrawnWork | None = Field(
        default=None,
        description="a number of minibatch steps, 0 or more, a list with one number per client, "
        "or a table {low, high} (and fixed = true) to draw them from",
    )
    epochs: Count | DrawnWork | None = Field(
        default=None,
        description="a number of passes over the client's samples, 0 or more, or a table {low, high} "
        "(and fixed = true) to draw it from",
    )
    batch: Positive | Literal["all"] | None = Field(
        default=None, description='a number of samples, 1 or more, or "all"'
    )


class MethodChoice(Choice):
    """A method with its label, and its local work if it differs from [local]."""

    label: Word | None = Field(default=None, description="a name for tables and figures")
    local: LocalTable | None = Field(default=None, description="a table with steps or epochs, and batch")
    tune: dict[str, Any] | None = Field(
        default=None, description="a table with a list of values for each argument that fedtide tune varies"
    )


class Tune(Table):
    """The trials of `fedtide tune` and how to choose among them; the same for every method."""

    trials: Annotated[int, Field(ge=1, le=MOST_SEEDS)] = Field(
        default=35, description=f"a number of settings to try, 1 to {MOST_SEEDS:,}, the same for every method"
    )
    seeds: Seeds = Field(default=4, description=f"{_SEEDS}, none of them a seed of [run]")
    rounds: Rounds | None = Field(default=None, description=_ROUNDS)
    validation: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.2, description="the share of every client's training samples used for validation, in (0, 1)"
    )
    select: Literal["accuracy", "worst_decile", "loss", "objective", "tail_loss"] | None = Field(
        default=None, description='"accuracy", "worst_decile", "loss", "objective" or "tail_loss"'
    )
    space: dict[str, Any] = Field(default={}, description="a table with a list of values to try for each argument")


class Run(Table):
    """The length of the run, its seeds and what it records."""

    rounds: Rounds = Field(description=_ROUNDS)
    seeds: Seeds = Field(default=1, description=_SEEDS)
    evaluate_every: Positive = Field(default=5, description="a number of rounds, 1 or more")
    history: Annotated[int, Field(ge=0, le=MOST_ROUNDS)] = Field(
        default=0, description=f"a number of rounds observed before the first, 0 to {MOST_ROUNDS:,}"
    )
    record_clients: bool | None = Field(default=None, description="true or false")
    chunk: Positive | None = Field(default=None, description="a number of clients trained at a time, 1 or more")


class Origin(NamedTuple):
    """The source of a configuration."""

    text: str
    source: str  # its name in errors
    folder: Path  # base of its relative file names


class Config(Table):
    """One experiment."""

    title: Word | None = Field(default=None, description="text")
    problem: Choice = Field(description="a table with the name of a problem and its arguments")
    availability: Choice = Field(description="a table with the name of an availability process and its arguments")
    run: Run = Field(description="a table with rounds, and seeds, evaluate_every, history, record_clients, chunk")
    clock: dict[str, Any] | None = Field(
        default=None, description="a table with devices, and barrier, slot, leaving: rounds then take time"
    )
    local: LocalTable = Field(default=LocalTable(), description="a table with steps or epochs, and batch")
    methods: Annotated[tuple[MethodChoice, ...], Field(min_length=1)] = Field(
        description="one or more tables [[methods]], each with a name and its arguments"
    )
    tune: Tune = Field(
        default=Tune(), description="a table with trials, seeds, rounds, validation, select and space, for fedtide tune"
    )

    _origin: Origin = PrivateAttr()

    @property
    def origin(self) -> Origin:
        return self._origin


@kinds_checked
def load(path: str | Path) -> Config:
    """The configuration in a TOML file."""
    path = Path(path)
    return loads(read(path), source=str(path), folder=path.parent)


@kinds_checked
def loads(text: str, source: str = "configuration", folder: str | Path = ".") -> Config:
    """The configuration in a TOML text."""
    return from_tables(parsed(text, Place(source)), source, folder, text)


def from_tables(
    written: dict[str, Any], source: str = "configuration", folder: str | Path = ".", text: str | None = None
) -> Config:
    """The configuration with these tables. Its text, unless given, is that of a file with these tables."""
    place = Place(source)
    written = json.loads(json.dumps(written, default=in_json))
    config = validated(Config, written, place)
    for key, table in (("run", config.run), ("tune", config.tune)):
        seeds = table.seeds
        if isinstance(seeds, tuple) and len(set(seeds)) < len(seeds):
            raise place.key(key).key("seeds").invalid(list(seeds), str(type(table).model_fields["seeds"].description))
    config._origin = Origin(dumps(written) if text is None else text, source, Path(folder))
    return config


def read(path: Path) -> str:
    """The text of a file, or a one-line error."""
    place = Place(str(path))
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise place.error(f"not a text file in UTF-8 (byte {error.start})") from None
    except OSError as error:
        raise place.error(error.strerror or str(error)) from None


def parsed(text: str, place: Place) -> dict[str, Any]:
    """The tables of a TOML text, or a one-line error."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        raise place.error(f"not valid TOML: {message[:1].lower()}{message[1:]}") from None


def validated(model: type[T], written: dict[str, Any], place: Place) -> T:
    """Tables as a model, or a one-line error with the path."""
    try:
        # In JSON mode, pydantic is strict (no "5" for 5, no true for 1) and still accepts a list as a tuple.
        return model.model_validate_json(json.dumps(written, default=in_json))
    except ValidationError as error:
        raise _explain(error, model, written, place) from None


def in_json(value: Any) -> Any:
    """What JSON has in place of a value that it does not know: arrays as lists, others as text."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic | jax.Array) else str(value)


def dotted(table: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """{"solver": {"mu": […]}} as {"solver.mu": […]}."""
    flat = {}
    for key, value in table.items():
        flat |= dotted(value, f"{before}{key}.") if isinstance(value, dict) else {f"{before}{key}": value}
    return flat


def demo() -> Config:
    """The packaged experiment of `fedtide demo`."""
    return loads(resources.files("fedtide.experiments").joinpath("demo.toml").read_text("utf-8"), "demo.toml")


@kinds_checked
def adjusted(config: Config, **run: Any) -> Config:
    """The configuration with other values in its [run] table, and the corresponding text."""
    changed = {key: value for key, value in run.items() if value != getattr(config.run, key)}
    return with_values(config, "run", **changed) if changed else config


def with_values(config: Config, table: str, **values: Any) -> Config:
    """The configuration with other values in one of its tables, and the corresponding text."""
    written = config.model_dump(exclude_unset=True)
    written[table] |= values
    return from_tables(written, config.origin.source, config.origin.folder)


def _explain(error: ValidationError, model: type[BaseModel], written: Any, place: Place) -> Exception:
    """The first of pydantic's errors as one line; a misspelt key precedes the key that is missing because of it."""
    first = min(error.errors(include_url=False), key=lambda e: e["type"] != "extra_forbidden")
    description = ""
    value = written
    for step in first["loc"]:
        # Steps below a key of the schema name alternatives of a union, which its description covers.
        if isinstance(step, int) and isinstance(value, list) and value[step:] and isinstance(value[step], dict):
            place, value = place.item(step), value[step]
        elif isinstance(step, str) and step in model.model_fields and isinstance(value, dict):
            field = model.model_fields[step]
            place, description = place.key(step), field.description or ""
            if step not in value:
                return place.error(f"missing; must be {description}")
            value = value[step]
            model = next((m for m in _models(field.annotation)), model)
        elif step == model.__name__:  # the alternative of a union that is a table
            continue
        elif step != first["loc"][-1] and isinstance(value, dict) and isinstance(value.get(step), dict):
            place, value = place.key(str(step)), value[step]  # a table of tables
        elif first["type"] == "extra_forbidden":
            return place.key(str(step)).error(f"unknown; {did_you_mean(str(step), model.model_fields)}")
        else:
            break
    return place.invalid(value, description or "a table")


def _models(annotation: Any) -> list[type[BaseModel]]:
    members = (annotation, *getattr(annotation, "__args__", ()))
    return [m for m in members if isinstance(m, type) and issubclass(m, BaseModel)]
