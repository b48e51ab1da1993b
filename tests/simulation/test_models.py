"""Trained models have the names and shapes of the model's `init`, in memory and in a run's folder."""

import json
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import fedtide
from fedtide.availability import Bernoulli
from fedtide.errors import CheckpointError, InvalidInput
from fedtide.methods import fedavg
from fedtide.problems import classification, random_quadratic
from fedtide.problems.models import mlp
from fedtide.simulation.models import layout_of, read_models, unravelled, write_models


class Pair(NamedTuple):
    first: object
    second: object


class Given:
    """A problem as far as its parameters go."""

    def __init__(self, params):
        self.init = lambda key: jax.tree.map(jnp.asarray, params)


def rows_of(params, seeds=2):
    flat = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(params)]).astype(np.float32)
    return np.stack([flat + 100 * seed for seed in range(seeds)])


TREES = {
    "dictionary": {"b": np.arange(6.0).reshape(2, 3), "a": {"x": np.float32(7)}},
    "array": np.arange(4.0),
    "lists": [{"w": np.arange(2.0)}, [np.arange(3.0), np.ones((1, 2))]],
    "names that would be equal": {"a.b": np.zeros(1), "a": {"b": np.ones(1)}},
}


@pytest.mark.parametrize("params", TREES.values(), ids=TREES)
def test_names_and_shapes_are_those_of_init(params, tmp_path):
    layout, rows = json.loads(json.dumps(layout_of(Given(params)))), rows_of(params)
    write_models(tmp_path / "m", {"A": rows, "B/C": rows + 1}, layout, [4, 1])
    read = read_models(tmp_path / "m", ["A", "B/C"], layout)
    np.testing.assert_array_equal(read["B/C"], rows + 1)
    found = unravelled(read["A"][1], layout)
    assert jax.tree.structure(found) == jax.tree.structure(params)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, np.float32(b) + 100), found, params)


def test_other_structures_need_an_example():
    params = Pair(np.arange(2.0), {"w": np.ones((2, 1))})
    layout, row = layout_of(Given(params)), rows_of(params)[0]
    assert unravelled(row, layout).keys() == {"first", "second"}
    found = unravelled(row, layout, like=params)
    assert isinstance(found, Pair)
    np.testing.assert_array_equal(found.second["w"], params.second["w"])
    with pytest.raises(InvalidInput, match=r"^like = \[\[2\]\]: must be arrays of the model's shapes$"):
        unravelled(row, layout, like=np.arange(2.0))


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    clients = [(rng.normal(size=(8, 4)).astype(np.float32), rng.integers(0, 3, 8)) for _ in range(3)]
    problem = classification(mlp(4, 3, hidden=(5,)), clients, clients)
    fleet = Bernoulli([0.9, 0.5, 0.9])
    found = fedtide.simulate(problem, fleet, fedavg(rate=0.1), rounds=2, seeds=[4, 1], progress=False)
    return problem, found


def test_the_model_that_was_evaluated(result, tmp_path):
    problem, found = result
    wanted = jax.eval_shape(problem.init, jax.random.key(0))
    for run in (found, fedtide.Result.load(found.save(tmp_path / "run"))):
        params = run.params("FedAvg", seed=1)
        assert jax.tree.map(np.shape, params) == jax.tree.map(np.shape, wanted)
        evaluation = problem.evaluate(params)
        objective = float((problem.importance * evaluation.train_loss).sum())
        last = run.rounds.filter(seed=1, round=2)["objective"].item()
        assert objective == pytest.approx(last, rel=1e-6)
    assert (found.params("FedAvg")["dense2"]["bias"] == found.params("FedAvg", seed=4)["dense2"]["bias"]).all()


def test_the_file_says_what_it_holds(result, tmp_path):
    folder = result[1].save(tmp_path / "run")
    with safe_open(folder / "models.safetensors", framework="numpy") as file:
        assert {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()} == {  # noqa: SIM118
            "FedAvg/dense1.bias": (2, 5),
            "FedAvg/dense1.weight": (2, 5, 4),
            "FedAvg/dense2.bias": (2, 3),
            "FedAvg/dense2.weight": (2, 3, 5),
        }
        assert file.metadata() == {"format": "fedtide-models-1", "methods": '["FedAvg"]', "seeds": "[4, 1]"}


def test_wrong_names_are_refused(result):
    with pytest.raises(InvalidInput, match=r"^label = 'fedavg': must be one of FedAvg \(did you mean 'FedAvg'\?\)$"):
        result[1].params("fedavg")
    with pytest.raises(InvalidInput, match=r"^seed = 2: must be one of 4, 1$"):
        result[1].params("FedAvg", seed=2)


def test_models_of_another_run_are_refused(result, tmp_path):
    folder, other = result[1].save(tmp_path / "run"), random_quadratic(clients=3)
    write_models(folder / "models.safetensors", {"FedAvg": np.zeros((2, 10))}, layout_of(other), [4, 1])
    with pytest.raises(CheckpointError, match="not the models of this run"):
        fedtide.Result.load(folder)


def test_models_of_earlier_versions_are_read_as_one_array(result, tmp_path):
    folder = result[1].save(tmp_path / "run")
    about = json.loads((folder / "run.json").read_text("utf-8"))
    del about["problem"]["arrays"]
    (folder / "run.json").write_text(json.dumps(about), "utf-8")
    save_file(result[1].models, folder / "models.safetensors")
    found = fedtide.Result.load(folder)
    np.testing.assert_array_equal(found.params("FedAvg", seed=1), result[1].models["FedAvg"][1])
