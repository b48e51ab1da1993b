"""Arguments from tables, against signatures."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from jax import Array

from fedtide.errors import FedtideError, InvalidInput
from fedtide.experiments.arguments import Context, call, in_words, named
from fedtide.experiments.place import Place
from fedtide.types import Estimator, Work
from fedtide.work import Steps

PLACE = Place("a.toml").key("methods").item(2)


def builder(
    rate: float,
    clients: int | None = None,
    optimum: Literal["zero", "oracle"] = "zero",
    strict: bool = False,
    weights: Array | Any = 1.0,
    importance: Literal["uniform"] | np.ndarray = "uniform",
    pair: tuple[float, float] = (0.0, 1.0),
    path: str | Path | None = None,
    anything: Any = None,
    work: Work = Steps(),
) -> dict[str, Any]:
    if rate < 0:
        raise InvalidInput("rate", rate, "0 or more")
    return dict(locals())


def test_values_arrive_as_the_types_of_the_signature():
    written = {"rate": 1, "clients": 3, "weights": [1, 2.5], "importance": [0.5, 0.5], "pair": [1, 2], "path": "a.npy"}
    built = call(builder, written, PLACE, Context(folder=Path("there")))
    assert isinstance(built["rate"], float)
    assert built["rate"] == 1.0
    assert built["clients"] == 3
    assert built["optimum"] == "zero"
    assert isinstance(built["weights"], np.ndarray)
    np.testing.assert_array_equal(built["weights"], [1, 2.5])
    np.testing.assert_array_equal(built["importance"], [0.5, 0.5])
    assert built["pair"] == (1.0, 2.0)
    assert built["path"] == Path("there/a.npy")


def test_infinity_and_one_number_for_an_array():
    built = call(builder, {"rate": float("inf"), "weights": 2}, PLACE)
    assert built["rate"] == float("inf")
    assert built["weights"] == 2


def test_an_absolute_path_stays():
    absolute = str(Path("/data/trace.npy"))
    assert call(builder, {"rate": 1.0, "path": absolute}, PLACE, Context(folder=Path("there")))["path"] == Path(
        absolute
    )


def test_work_comes_from_the_context_and_is_not_an_argument():
    work = Steps(7)
    assert call(builder, {"rate": 1.0}, PLACE, Context(work=work))["work"] is work
    with pytest.raises(FedtideError, match=r"^a.toml: methods\[2\].work: unknown; "):
        call(builder, {"rate": 1.0, "work": 3}, PLACE)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"rat": 1.0}, "methods[2].rat: unknown; did you mean 'rate'? known: anything, clients, importance, name, "
                       "optimum, pair, path, rate, strict, weights"),
        ({}, "methods[2].rate: missing; must be a number"),
        ({"rate": "fast"}, "methods[2].rate = 'fast': must be a number"),
        ({"rate": True}, "methods[2].rate = True: must be a number"),
        ({"rate": 1.0, "clients": 2.5}, "methods[2].clients = 2.5: must be a whole number"),
        ({"rate": 1.0, "clients": True}, "methods[2].clients = True: must be a whole number"),
        ({"rate": 1.0, "optimum": "one"}, "methods[2].optimum = 'one': must be \"zero\" or \"oracle\""),
        ({"rate": 1.0, "strict": 1}, "methods[2].strict = 1: must be true or false"),
        ({"rate": 1.0, "weights": ["a"]}, "methods[2].weights = ['a']: must be a number or a list of numbers"),
        ({"rate": 1.0, "importance": "sizes"},
         "methods[2].importance = 'sizes': must be \"uniform\" or a number or a list of numbers"),
        ({"rate": 1.0, "pair": [1.0]}, "methods[2].pair = [1.0]: must be a list of 2 numbers"),
        ({"rate": 1.0, "path": 3}, "methods[2].path = 3: must be text or a file name"),
        ({"rate": -1}, "methods[2]: rate = -1.0: must be 0 or more"),
    ],
)  # fmt: skip
def test_errors_name_file_path_value_and_what_is_allowed(written, message):
    with pytest.raises(FedtideError) as error:
        call(builder, written, PLACE, own=("name",))
    assert str(error.value) == f"a.toml: {message}"


@dataclass(frozen=True)
class _Estimator:
    prior: float = 1.0


def _wrapper(estimator: Estimator, times: int = 2) -> tuple[Any, int]:
    return estimator, times


def test_a_part_is_a_table_with_a_name():
    context = Context(kinds={Estimator: {"simple": _Estimator}})
    built, times = named({"name": "w", "estimator": {"name": "simple", "prior": 3}}, {"w": _wrapper}, PLACE, context)
    assert (built.prior, times) == (3.0, 2)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        ({"name": "simpel"}, ".estimator.name: 'simpel' is unknown; did you mean 'simple'? known: simple"),
        ({}, ".estimator.name: missing; known: simple"),
        ("simple", ".estimator = 'simple': must be a table with a name and its arguments"),
        ({"name": "simple", "pior": 1.0}, ".estimator.pior: unknown; did you mean 'prior'? known: name, prior"),
    ],
)
def test_errors_inside_a_part_name_the_whole_path(estimator, message):
    context = Context(kinds={Estimator: {"simple": _Estimator}})
    with pytest.raises(FedtideError) as error:
        named({"name": "w", "estimator": estimator}, {"w": _wrapper}, PLACE, context)
    assert str(error.value) == f"a.toml: methods[2]{message}"


def test_a_missing_file_is_one_line(tmp_path):
    def reader(path: Path) -> str:
        return path.read_text()

    with pytest.raises(FedtideError, match=r"^a.toml: methods\[2\]: .*none.txt: No such file or directory$"):
        call(reader, {"path": "none.txt"}, PLACE, Context(folder=tmp_path))


def test_types_in_words():
    assert in_words(int | None) == "a whole number"
    assert in_words(Literal["a", "b"] | float) == '"a" or "b" or a number'
    assert in_words(tuple[float, ...]) == "a list of numbers"
    assert in_words(list[int]) == "a list of whole numbers"
    assert in_words(dict[str, float]) == "a table"
