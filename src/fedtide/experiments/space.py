"""What `fedtide tune` tries: for every method lists of values, and from them the same number of trials."""

import math
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from fedtide.errors import FedtideError, did_you_mean
from fedtide.experiments.arguments import convert
from fedtide.experiments.build import build_method, tunable
from fedtide.experiments.config import Config, MethodChoice
from fedtide.experiments.place import Place
from fedtide.tomls import toml

FACTORS = {"rate": (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0), "server_rate": (0.1, 0.3, 1.0, 3.0, 10.0)}
"""Without lists: the method's own value (written, or its default) times these."""

_IN_PARTS = {"rate": "solver.rate", "server_rate": "server.rate"}  # where a list for all applies to a replaced part
_SEED = 0


class Axis(NamedTuple):
    """An argument by its dotted name, and the values to try."""

    name: str
    values: tuple[Any, ...]


class Space(NamedTuple):
    """The trials of one method."""

    axes: tuple[Axis, ...]
    trials: tuple[tuple[Any, ...], ...]  # a value for each axis
    note: str  # how they were chosen, in words


def space(config: Config, index: int, sizes: Array) -> Space:
    """The trials of the method at this index of the configuration; their number is `tune.trials`."""
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
    shared, own = _flat(config.tune.space), _flat(choice.tune or {})
    at = root.key("methods").item(index)
    _check_known(config, shared, root.key("tune").key("space"))
    for name in own:
        if name not in known:
            raise at.key("tune").key(name).error(f"unknown; {did_you_mean(name, known)}")

    def changes(axis: Axis) -> bool:
        built = [build_method(config, index, with_values(choice, (axis,), (v,)), sizes) for v in axis.values[:2]]
        return len(built) < 2 or _identity(built[0]) != _identity(built[1])

    found: dict[str, Axis] = {}
    for name in dict.fromkeys((*FACTORS, *shared)):
        for target in (name, _IN_PARTS.get(name)):
            if target not in known or target in own:
                continue
            if name in shared:
                values = _values(shared[name], known[target], root.key("tune").key("space").key(name))
            else:
                centre = _centre(choice, target, known[target])
                values = tuple(dict.fromkeys(_digits(centre * factor, 6) for factor in FACTORS[name]))
            # An argument of a part that was replaced says nothing: its part may have one of its own.
            if changes(Axis(target, values)):
                found[target] = Axis(target, values)
                break
    for name, written in own.items():
        place = at.key("tune").key(name)
        found[name] = Axis(name, _values(written, known[name], place))
        if not changes(found[name]):
            raise place.error("changes nothing, as the part that it belongs to was replaced")
    order = [name for pair in _IN_PARTS.items() for name in pair]  # smaller rates first, whatever else is tried
    return tuple(sorted(found.values(), key=lambda axis: order.index(axis.name) if axis.name in order else len(order)))


def _check_known(config: Config, shared: dict[str, Any], place: Place) -> None:
    known = {name for choice in config.methods for name in tunable(choice)}
    for name in shared:
        if name not in known:
            raise place.key(name).error(f"no method of this configuration has it; {did_you_mean(name, known)}")


def _flat(lists: dict[str, Any], before: str = "") -> dict[str, Any]:
    """{"solver": {"mu": […]}} as {"solver.mu": […]}."""
    found = {}
    for key, value in lists.items():
        found |= _flat(value, f"{before}{key}.") if isinstance(value, dict) else {f"{before}{key}": value}
    return found


def _values(written: Any, parameter: Any, place: Place) -> tuple[Any, ...]:
    if not isinstance(written, list) or not written:
        raise place.invalid(written, "a list of one value or more")
    for i, value in enumerate(written):
        if isinstance(value, float) and not math.isfinite(value):
            raise place.item(i).invalid(value, "finite")
    values = []
    for i, value in enumerate(written):
        typed = value if parameter is None else convert(value, parameter.annotation, place.item(i))
        is_float = isinstance(typed, float) and not isinstance(value, bool)
        values.append(float(value) if is_float else value)
    texts = [toml(value) for value in values]
    if len(set(texts)) < len(texts):
        raise place.invalid(written, "a list of different values")
    numbers = all(_is_number(value) for value in values)
    return tuple(sorted(values) if numbers else values)


def _centre(choice: MethodChoice, name: str, parameter: Any) -> float:
    table, *inner = name.split(".")
    written: Any = choice.arguments.get(table)
    written = written.get(inner[0]) if inner and isinstance(written, dict) else written
    return float(next((v for v in (written, parameter.default) if _is_number(v)), 1.0))


def _identity(method: Any) -> Any:
    leaves, structure = jax.tree.flatten(method)
    return structure, [np.asarray(leaf).tobytes() for leaf in leaves]


def _spread(axes: tuple[Axis, ...], count: int) -> Space:
    """Exactly `count` trials: all combinations, evenly spread ones of them, or all and some in between."""
    listed = _size(axes)
    if listed == count:
        return _space(axes, [*np.ndindex(*(len(axis.values) for axis in axes))], f"all {count} combinations")
    if listed > count:
        chosen = _evenly(tuple(len(axis.values) for axis in axes), count)
        return _space(axes, chosen, f"{count} of {listed} combinations, evenly spread")
    fine = _refined(axes, count)
    given = [[fine_axis.values.index(v) for v in axis.values] for axis, fine_axis in zip(axes, fine, strict=True)]
    whole = [tuple(given[i][at] for i, at in enumerate(index)) for index in np.ndindex(*map(len, given))]
    between = _evenly(tuple(len(axis.values) for axis in fine), count - len(whole), frozenset(whole))
    note = f"all {listed} combinations and {count - listed} in between, evenly spread"
    return _space(fine, [*whole, *between], note)


def _space(axes: tuple[Axis, ...], indices: list[tuple[int, ...]], note: str) -> Space:
    trials = (tuple(axis.values[at] for axis, at in zip(axes, index, strict=True)) for index in sorted(indices))
    return Space(axes, tuple(trials), note)


def _size(axes: tuple[Axis, ...]) -> int:
    return math.prod(len(axis.values) for axis in axes)


def _evenly(shape: tuple[int, ...], count: int, taken: frozenset[tuple[int, ...]] = frozenset()) -> list[Any]:
    """So many cells of a grid, none twice, none of the taken: the first that a scrambled Halton sequence meets."""
    from scipy.stats import qmc

    found: dict[tuple[int, ...], None] = {}
    sequence = qmc.Halton(len(shape), rng=_SEED)  # the same for every method
    for _ in range(64):
        for point in sequence.random(max(64, count)):
            cell = tuple(int(u * n) for u, n in zip(point, shape, strict=True))
            if len(found) < count and cell not in taken:
                found[cell] = None
    rest = (cell for cell in np.ndindex(*shape) if cell not in taken and cell not in found)
    return [*found, *(cell for cell, _ in zip(rest, range(count - len(found)), strict=False))]


def _refined(axes: tuple[Axis, ...], count: int) -> tuple[Axis, ...]:
    """The lists with values added in their widest gaps, shortest list first, until there are enough combinations."""
    fine = list(axes)
    while _size(tuple(fine)) < count:
        middles = {i: middle for i, axis in enumerate(fine) if (middle := _middle(axis.values)) is not None}
        if not middles:
            raise FedtideError(
                f"its lists give {_size(axes)} combinations, fewer than the {count} trials that every method gets, and "
                "have no two numbers to go between: lengthen a list, or lower tune.trials"
            )
        i = min(middles, key=lambda i: len(fine[i].values))
        fine[i] = fine[i]._replace(values=tuple(sorted((*fine[i].values, middles[i]))))
    return tuple(fine)


def _middle(values: tuple[Any, ...]) -> float | None:
    """The middle of the widest gap between numbers, of ratios where all are positive; None where there is none."""
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


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
