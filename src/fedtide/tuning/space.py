"""The search space of `fedtide tune`: lists of values per method, and from them the same number of trials for all."""

import itertools
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from fedtide.errors import FedtideError, did_you_mean
from fedtide.experiments.arguments import convert
from fedtide.experiments.build import build_method, tunable
from fedtide.experiments.config import Config, MethodChoice, dotted
from fedtide.experiments.place import Place
from fedtide.tomls import toml

FACTORS = {"rate": (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0), "server_rate": (0.1, 0.3, 1.0, 3.0, 10.0)}
"""Without lists: the method's own value (configured, or its default) times these."""

_IN_PARTS = {"rate": "solver.rate", "server_rate": "server.rate"}  # where a shared list applies to a replaced part
_SEED = 0


class Axis(NamedTuple):
    """An argument by its dotted name, and the values to try."""

    name: str
    values: tuple[Any, ...]


class Space(NamedTuple):
    """The trials of one method."""

    axes: tuple[Axis, ...]
    trials: tuple[tuple[Any, ...], ...]  # a value for each axis
    note: str  # how they were selected


def space(config: Config, index: int, sizes: Array) -> Space:
    """The `tune.trials` trials of the method at this index of the configuration."""
    place = Place(config.origin.source)
    axes = _axes(config, index, sizes, place)
    count = config.tune.trials
    try:
        return _spread(axes, count)
    except FedtideError as error:
        raise place.key("methods").item(index).error(str(error)) from None


def with_values(choice: MethodChoice, axes: tuple[Axis, ...], values: tuple[Any, ...]) -> MethodChoice:
    """The method's table with these values in it."""
    written = choice.model_dump(exclude_unset=True)
    for axis, value in zip(axes, values, strict=True):
        table, *inner = axis.name.split(".")
        written[table] = {**(written.get(table) or {}), inner[0]: value} if inner else value
    return MethodChoice.model_validate(written, strict=False)


def _axes(config: Config, index: int, sizes: Array, root: Place) -> tuple[Axis, ...]:
    choice = config.methods[index]
    known = tunable(choice)
    shared, own = dotted(config.tune.space), dotted(choice.tune or {})
    at = root.key("methods").item(index)
    of_any = {name for method in config.methods for name in tunable(method)}
    for name in shared:
        if name not in of_any:
            message = f"no method of this configuration has it; {did_you_mean(name, of_any)}"
            raise root.key("tune").key("space").key(name).error(message)
    for name in own:
        if name not in known:
            raise at.key("tune").key(name).error(f"unknown; {did_you_mean(name, known)}")

    def changes(axis: Axis) -> bool:
        built = [build_method(config, index, with_values(choice, (axis,), (v,)), sizes) for v in axis.values[:2]]
        return len(built) < 2 or _identity(built[0]) != _identity(built[1])

    axes: dict[str, Axis] = {}
    for name in dict.fromkeys((*FACTORS, *shared)):
        for target in (name, _IN_PARTS.get(name)):
            if target not in known or target in own:
                continue
            if name in shared:
                values = _values(shared[name], known[target], root.key("tune").key("space").key(name))
            else:
                centre = _centre(choice, target, known[target])
                values = tuple(dict.fromkeys(_digits(centre * factor, 6) for factor in FACTORS[name]))
            # An argument of a replaced part has no effect; the new part may have an argument instead.
            if changes(Axis(target, values)):
                axes[target] = Axis(target, values)
                break
    for name, written in own.items():
        place = at.key("tune").key(name)
        axes[name] = Axis(name, _values(written, known[name], place))
        if not changes(axes[name]):
            raise place.error("has no effect, as the part it belongs to was replaced")
    # Rates first, so that among equal scores the smaller one is chosen.
    order = [name for pair in _IN_PARTS.items() for name in pair]
    return tuple(sorted(axes.values(), key=lambda axis: order.index(axis.name) if axis.name in order else len(order)))


def _values(written: Any, parameter: Any, place: Place) -> tuple[Any, ...]:
    if not isinstance(written, list) or not written:
        raise place.invalid(written, "a list of one value or more")
    values = []
    for i, value in enumerate(written):
        if isinstance(value, float) and not math.isfinite(value):
            raise place.item(i).invalid(value, "finite")
        typed = value if parameter is None else convert(value, parameter.annotation, place.item(i))
        values.append(float(value) if isinstance(typed, float) and is_number(value) else value)
    if len({toml(value) for value in values}) < len(values):
        raise place.invalid(written, "a list of different values")
    return tuple(sorted(values) if all(map(is_number, values)) else values)


def _centre(choice: MethodChoice, name: str, parameter: Any) -> float:
    table, *inner = name.split(".")
    written: Any = choice.arguments.get(table)
    written = written.get(inner[0]) if inner and isinstance(written, dict) else written
    return float(next((v for v in (written, parameter.default) if is_number(v)), 1.0))


def _identity(method: Any) -> Any:
    leaves, structure = jax.tree.flatten(method)
    return structure, [np.asarray(leaf).tobytes() for leaf in leaves]


def _spread(axes: tuple[Axis, ...], count: int) -> Space:
    """Exactly `count` trials: all combinations, evenly spread ones of them, or all and some in between."""
    listed = math.prod(_shape(axes))
    if listed > count:
        return _space(axes, _evenly(_shape(axes), count), f"{count} of {listed} combinations, evenly spread")
    fine, more = _refined(axes, count), count - listed
    given = [[fine_axis.values.index(v) for v in axis.values] for axis, fine_axis in zip(axes, fine, strict=True)]
    whole = [*itertools.product(*given)]
    between = _evenly(_shape(fine), more, frozenset(whole)) if more else []
    note = f"all {listed} combinations" + (f" and {more} between them, evenly spread" if more else "")
    return _space(fine, [*whole, *between], note)


def _space(axes: tuple[Axis, ...], indices: list[tuple[int, ...]], note: str) -> Space:
    trials = (tuple(axis.values[at] for axis, at in zip(axes, index, strict=True)) for index in sorted(indices))
    return Space(axes, tuple(trials), note)


def _shape(axes: Iterable[Axis]) -> tuple[int, ...]:
    return tuple(len(axis.values) for axis in axes)


def _evenly(
    shape: tuple[int, ...], count: int, taken: frozenset[tuple[int, ...]] = frozenset()
) -> list[tuple[int, ...]]:
    """`count` distinct cells of a grid that are not taken: the first ones of a scrambled Halton sequence."""
    from scipy.stats import qmc

    cells: dict[tuple[int, ...], None] = {}
    sequence = qmc.Halton(len(shape), rng=_SEED)  # the same for every method
    for _ in range(64):
        points = (sequence.random(max(64, count)) * shape).astype(int)
        cells |= dict.fromkeys(cell for cell in map(tuple, points.tolist()) if cell not in taken)
        if len(cells) >= count:
            break
    rest = (cell for cell in np.ndindex(*shape) if cell not in taken and cell not in cells)
    return [*itertools.islice(itertools.chain(cells, rest), count)]


def _refined(axes: tuple[Axis, ...], count: int) -> tuple[Axis, ...]:
    """The lists with values added in their widest gaps, shortest list first, until they have enough combinations."""
    fine = list(axes)
    while math.prod(_shape(fine)) < count:
        middles = {i: middle for i, axis in enumerate(fine) if (middle := _middle(axis.values)) is not None}
        if not middles:
            listed = math.prod(_shape(axes))
            raise FedtideError(
                f"its lists give {listed} combinations, fewer than the {count} trials that every method gets, and "
                "have no two numbers to interpolate between: lengthen a list, or lower tune.trials"
            )
        i = min(middles, key=lambda i: len(fine[i].values))
        fine[i] = fine[i]._replace(values=tuple(sorted((*fine[i].values, middles[i]))))
    return tuple(fine)


def _middle(values: tuple[Any, ...]) -> float | None:
    """The middle of the widest gap, geometric where all are positive; None where there is no gap to fill."""
    if len(values) < 2 or not all(isinstance(value, float) for value in values):
        return None
    by_ratio = min(values) > 0
    scale = np.log(values) if by_ratio else np.array(values)
    at = int(np.round(np.diff(scale), 9).argmax())
    low, high = values[at], values[at + 1]
    exact = math.sqrt(low * high) if by_ratio else (low + high) / 2
    readable = _digits(exact, 2)
    middle = readable if low < readable < high else exact
    return middle if low < middle < high else None


def _digits(number: float, count: int) -> float:
    return float(f"{number:.{count}g}")


def is_number(value: Any) -> bool:
    """A number, not true or false."""
    return isinstance(value, int | float) and not isinstance(value, bool)
