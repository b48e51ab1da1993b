"""Configurations: read, checked, written."""

import inspect
import tomllib

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedtide
from fedtide.errors import FedtideError
from fedtide.experiments import adjusted, dumps, load, loads
from fedtide.experiments.arguments import call
from fedtide.experiments.config import Run, from_tables
from fedtide.experiments.place import Place


def test_only_what_was_written_is_in_it(small):
    config = loads(small)
    assert config.model_dump(exclude_unset=True, mode="json") == tomllib.loads(small)
    assert config.problem.arguments == {"clients": 8, "largest": 60}
    assert config.methods[1].label == "two clients"
    assert config.methods[1].arguments == {"clients": 2}
    assert config.origin.text == small


def test_defaults_are_those_of_simulate(small):
    simulated = inspect.signature(fedtide.simulate).parameters
    for name, field in Run.model_fields.items():
        default = simulated[name].default
        assert field.is_required() if default is inspect.Parameter.empty else field.default == default


def test_it_is_frozen(small):
    with pytest.raises(ValueError, match="frozen"):
        loads(small).run.rounds = 5


def test_adjusted_changes_the_run_and_its_text(small):
    config = adjusted(loads(small), rounds=9, seeds=2)
    assert (config.run.rounds, config.run.seeds) == (9, 2)
    written = tomllib.loads(small)
    written["run"]["rounds"] = 9
    assert tomllib.loads(config.origin.text) == written
    assert adjusted(config, rounds=9) is config


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[problem]", "[problm]",
         "problm: unknown; did you mean 'problem'? known: availability, clock, local, methods, problem, run, title, "
         "tune"),
        ("[problem]", "[problem.x]", "problem.name: missing; must be a name of the catalogue"),
        ('[problem]\nname = "synthetic_leaf"\nclients = 8\nlargest = 60', "problem = 3",
         "problem = 3: must be a table with the name of a problem and its arguments"),
        ("rounds = 4", "round = 4",
         "run.round: unknown; did you mean 'rounds'? known: chunk, evaluate_every, history, record_clients, rounds, "
         "seeds"),
        ("rounds = 4\n", "", "run.rounds: missing; must be a whole number from 1 to 10,000,000"),
        ("rounds = 4", "rounds = 0", "run.rounds = 0: must be a whole number from 1 to 10,000,000"),
        ("rounds = 4", "rounds = 4.5", "run.rounds = 4.5: must be a whole number from 1 to 10,000,000"),
        ("rounds = 4", "rounds = true", "run.rounds = True: must be a whole number from 1 to 10,000,000"),
        ("rounds = 4", 'rounds = "4"', "run.rounds = '4': must be a whole number from 1 to 10,000,000"),
        ("rounds = 4", f"rounds = {10**20 - 1}",
         "run.rounds = 99999999999999999999: must be a whole number from 1 to 10,000,000"),
        ("seeds = 2", "seeds = 1000000000",
         "run.seeds = 1000000000: must be a number of seeds, 1 to 1,000,000, or a list of different seeds in [0, 2³²)"),
        ("evaluate_every = 2", "history = 1000000000",
         "run.history = 1000000000: must be a number of rounds observed before the first, 0 to 10,000,000"),
        ("seeds = 2", "seeds = []",
         "run.seeds = []: must be a number of seeds, 1 to 1,000,000, or a list of different seeds in [0, 2³²)"),
        ("seeds = 2", "seeds = [1, 1]",
         "run.seeds = [1, 1]: must be a number of seeds, 1 to 1,000,000, or a list of different seeds in [0, 2³²)"),
        ("seeds = 2", "seeds = [-1]",
         "run.seeds = [-1]: must be a number of seeds, 1 to 1,000,000, or a list of different seeds in [0, 2³²)"),
        ("evaluate_every = 2", "evaluate_every = 0", "run.evaluate_every = 0: must be a number of rounds, 1 or more"),
        ("evaluate_every = 2", "history = -1",
         "run.history = -1: must be a number of rounds observed before the first, 0 to 10,000,000"),
        ("steps = 2", "stepz = 2", "local.stepz: unknown; did you mean 'steps'? known: batch, epochs, steps"),
        ("steps = 2", "steps = [1, -2]",
         "local.steps = [1, -2]: must be a number of minibatch steps, 0 or more, a list with one number per client, "
         "or a table {low, high} (and fixed = true) to draw them from"),
        ("steps = 2", "steps = {low = 1}",
         "local.steps = {'low': 1}: must be a number of minibatch steps, 0 or more, a list with one number per client, "
         "or a table {low, high} (and fixed = true) to draw them from"),
        ("steps = 2", "steps = {low = 1, hgh = 2}",
         "local.steps.hgh: unknown; did you mean 'high'? known: fixed, high, low"),
        ("batch = 8", 'batch = "half"', "local.batch = 'half': must be a number of samples, 1 or more, or \"all\""),
        ("[[methods]]\nname = \"fedavg\"\nrate = 0.1\n\n[[methods]]", "[methods]",
         "methods = {'name': 'fedavg', 'label': 'two clients', 'clients': 2}: must be one or more tables [[methods]], "
         "each with a name and its arguments"),
        ('label = "two clients"', "label = 2", "methods[1].label = 2: must be a name for tables and figures"),
        ('label = "two clients"', "local = {step = 2}",
         "methods[1].local.step: unknown; did you mean 'steps'? known: batch, epochs, steps"),
        ('name = "fedavg"\nlabel', "label", "methods[1].name: missing; must be a name of the catalogue"),
        ('title = "Small"', "title = 3", "title = 3: must be text"),
    ],
)  # fmt: skip
def test_errors_are_one_line_with_the_path(small, old, new, message):
    assert old in small
    with pytest.raises(FedtideError) as error:
        loads(small.replace(old, new), "a.toml")
    assert str(error.value) == f"a.toml: {message}"


@pytest.mark.parametrize("kind", [np.asarray, jnp.asarray])
def test_arrays_given_from_python_are_lists(small, kind):
    written = tomllib.loads(small)
    written["availability"] = {"name": "bernoulli", "availability": kind([0.25, 0.5])}
    written["run"]["rounds"] = np.int64(4)
    config = from_tables(written)
    assert config.availability.arguments == {"availability": [0.25, 0.5]}
    assert config.run.rounds == 4
    assert tomllib.loads(config.origin.text)["availability"]["availability"] == [0.25, 0.5]
    assert call(lambda weights: weights, {"weights": kind([1.0, 2.0])}, Place("a")) == [1, 2]


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("[run]", "[run", "line 11, column 5"),
        ("rounds = 4", "rounds = ", "line 12, column 10"),
        ("rounds = 4", "rounds = 4\nrounds = 5", "line 13, column 11"),
    ],
)
def test_what_is_not_toml_has_line_and_column(small, old, new, where):
    with pytest.raises(FedtideError, match=rf"^a.toml: not valid TOML: [^\n]*\(at {where}\)$"):
        loads(small.replace(old, new), "a.toml")


def test_without_methods(small):
    with pytest.raises(FedtideError) as error:
        loads(small.split("[[methods]]")[0], "a.toml")
    assert str(error.value) == (
        "a.toml: methods: missing; must be one or more tables [[methods]], each with a name and its arguments"
    )


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FedtideError, match=r"none.toml: No such file or directory$"):
        load(tmp_path / "none.toml")
    with pytest.raises(FedtideError, match=r": Is a directory$"):
        load(tmp_path)
    (tmp_path / "b.toml").write_bytes(b"title = '\xff'")
    with pytest.raises(FedtideError, match=r"b.toml: not a text file in UTF-8 \(byte 9\)$"):
        load(tmp_path / "b.toml")


def test_load_remembers_where_it_was(tmp_path, small):
    (tmp_path / "a.toml").write_text(small, "utf-8")
    config = load(tmp_path / "a.toml")
    assert config.origin == (small, str(tmp_path / "a.toml"), tmp_path)


_scalars = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=8)
_keys = st.text(min_size=1, max_size=5)
_values = st.recursive(
    _scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(_keys, v, max_size=3), max_leaves=5
)
_tables = st.dictionaries(_keys, _values, max_size=4)


@given(st.dictionaries(_keys, _values | _tables | st.lists(_tables, min_size=1, max_size=3), max_size=4))
def test_what_is_written_reads_back(written):
    assert tomllib.loads(dumps(written)) == written
