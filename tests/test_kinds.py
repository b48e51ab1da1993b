"""Arguments of the wrong kind: every public constructor and function refuses them in one line, or accepts them."""

import collections.abc
import functools
import inspect
import random
import typing
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest

import fedtide
from fedtide import (
    aggregation,
    availability,
    clock,
    data,
    estimators,
    experiments,
    fleet,
    methods,
    participation,
    partitioners,
    problems,
    schedules,
    servers,
    solvers,
    staleness,
    theory,
    work,
)
from fedtide.errors import FedtideError, InvalidInput
from fedtide.kinds import in_words, kinds_checked

PACKAGES = (
    aggregation, availability, clock, data, estimators, experiments, fleet, methods, participation, partitioners,
    problems, schedules, servers, solvers, theory,
)  # fmt: skip


class Odd:
    pass


WRONG = [
    None, True, "x", "", b"x", -1, 0, 3, 2**40, 10**30, 0.5, -2.5, float("nan"), float("inf"), 1j, [], [1, 2], ["a"],
    [[1], [2, 3]], {}, {"a": 1}, (), object(), Odd(), np.array(3), np.array(["a"]), np.zeros((2, 2)), np.array([None]),
    methods.fedavg(), solvers.Sgd(), slice(3), Odd,
]  # fmt: skip
LEFT_OUT = {
    "Config",  # experiments are read with `load` and `loads`
    "demo", "fetch", "use_all_cores", "user_cache", "write_example",  # without arguments, or with effects
}  # fmt: skip
DRAWS = 8  # values for each parameter


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    for package in PACKAGES:
        for name in package.__all__:
            if callable(getattr(package, name)) and name not in LEFT_OUT:
                yield f"{package.__name__}.{name}", getattr(package, name)
    for module in (work, staleness):
        for name, value in vars(module).items():
            if isinstance(value, type) and value.__module__ == module.__name__ and not name.startswith("_"):
                yield f"{module.__name__}.{name}", value


def of_arguments(function: Callable[..., Any]) -> list[inspect.Parameter]:
    if getattr(function, "_is_protocol", False):
        return []
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    try:
        return [p for p in inspect.signature(function).parameters.values() if p.kind in kinds]
    except (TypeError, ValueError):
        return []


def takes_a_function(name: str) -> bool:
    """A callable of another signature is not of another kind: what it raises is its author's."""
    return name in ("model", "partition", "gradient", "progress", "build")


def test_the_wrong_kind_is_refused_in_one_line():
    drawn, faults, calls = random.Random(0), [], 0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for name, function in public():
            arguments = of_arguments(function)
            for wrong in arguments:
                for value in drawn.sample(WRONG, DRAWS):
                    if value is Odd and takes_a_function(wrong.name):
                        continue
                    others = {p.name: drawn.choice(WRONG[:-1]) for p in arguments if p.default is p.empty}
                    calls += 1
                    try:
                        function(**others | {wrong.name: value})
                    except FedtideError as error:
                        faults += [f"{name}: {error}"] if "\n" in str(error) else []
                    except Exception as error:
                        faults.append(f"{name}({others | {wrong.name: value}}): {type(error).__name__}: {error}")
    assert not faults, "\n".join(faults)
    assert calls > 5_000


def accepted(*arguments, **options):
    raise FedtideError("accepted")


@pytest.mark.parametrize("run", [fedtide.simulate, fedtide.sweep])
def test_a_run_refuses_the_wrong_kind(run, monkeypatch):
    """Each argument in turn; nothing is run."""
    monkeypatch.setitem(run.__globals__, "_run" if run is fedtide.simulate else "_together", accepted)
    good = {"problem": problems.random_quadratic(4), "availability": availability.Bernoulli(0.5, clients=4)}
    last = list(inspect.signature(run).parameters)[2]
    good |= {last: [methods.fedavg()], "rounds": 2}
    for name in inspect.signature(run).parameters:
        for value in WRONG:
            if name in ("progress", "out") and isinstance(value, str | bool | type(None)) | (value is Odd):
                continue
            with pytest.raises(FedtideError) as caught:
                run(**good | {name: value})
            assert "\n" not in str(caught.value)


@kinds_checked
def every_kind(
    whole: int = 1,
    number: float = 1.0,
    flag: bool = True,
    text: str = "",
    path: Path = Path(),
    word: Literal["a", "b"] = "a",
    array: npt.ArrayLike = 0,
    several: Sequence[int] = (),
    table: Mapping[str, float] | None = None,
    function: Callable[[], int] = lambda: 1,
    names: Iterable[str] = (),
    pair: tuple[int, int] = (1, 1),
    part: solvers.Sgd = solvers.Sgd(),
    anything: Any = None,
) -> None:
    raise TypeError("a fault of another kind")


@pytest.mark.parametrize(
    ("argument", "right", "wrong", "allowed"),
    [
        ("whole", [0, -3, np.int64(2)], [True, 0.5, "1", None, 2**40, np.array(3)], "a whole number"),
        ("number", [1, 0.5, np.float32(1), np.array(0.5)], [True, "1", None, 1j, np.zeros(2)], "a number"),
        ("flag", [True, np.False_], [0, 1, "no", None], "True or False"),
        ("text", ["x"], [b"x", 3, None], "text"),
        ("path", ["x", Path("x")], [3, None, b"x"], "a path"),
        ("word", ["b"], ["c", [], 1, np.zeros(2)], "'a' or 'b'"),
        ("array", [1, [1, 2], np.zeros((2, 2))], ["x", [[1], [2, 3]], None, object()], "numbers"),
        ("several", [[1, 2], (3,), np.array([1, 2])], ["ab", 3, [0.5], np.array(3)], "a list of the right kind"),
        ("table", [None, {"a": 1.0}], [[], {"a": "x"}, {1: 1.0}], "a dictionary or None"),
        ("function", [len, int], ["x", None], "a function"),
        ("names", [["a"], {"a"}, ("a",)], ["ab", [1], None], "a list of the right kind"),
        ("part", [solvers.Sgd()], [solvers.Sgd, None, 3], "an object of type Sgd"),
        ("anything", WRONG, [], ""),
    ],
)
def test_kinds(argument, right, wrong, allowed):
    for value in wrong:
        with pytest.raises(InvalidInput, match=rf"^{argument} = ") as caught:
            every_kind(**{argument: value})
        assert str(caught.value).endswith(f": must be {allowed}")
    for value in right:
        with pytest.raises(TypeError, match="a fault of another kind"):
            every_kind(**{argument: value})


def test_parts_are_recognised_by_their_protocol():
    @kinds_checked
    def needs(solver: fedtide.types.Solver) -> None:
        raise AttributeError("none")

    with pytest.raises(InvalidInput, match=r"^solver = 3: must be an object of type Solver$"):
        needs(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(AttributeError, match="none"):
        needs(solvers.Sgd())


def test_what_works_is_not_checked():
    @kinds_checked
    def generous(count: int) -> Any:
        return count

    assert generous("ten") == "ten"  # pyright: ignore[reportArgumentType]
    assert inspect.signature(generous) == inspect.signature(generous.__wrapped__)  # pyright: ignore


def test_errors_of_the_call_itself_are_pythons():
    with pytest.raises(TypeError, match="unexpected keyword"):
        every_kind(wholes=1)  # pyright: ignore[reportCallIssue]


def test_in_words():
    assert in_words(int | float | None) == "a whole number or a number or None"
    assert typing.get_type_hints(functools.partial(every_kind).func)["whole"] is int
    assert in_words(collections.abc.Callable[..., int]) == "a function"
