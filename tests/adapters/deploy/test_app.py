"""App folders: what is written works, in four frameworks alike; bad input is one line."""

import re
import tomllib

import numpy as np
import pytest

from fedtide.adapters.deploy.app import ids_of, read_app, write_app
from fedtide.adapters.rounds import Round
from fedtide.adapters.training import Gradients
from fedtide.errors import FedtideError
from fedtide.methods import scaffold
from fedtide.work import Steps

FRAMEWORKS = ["numpy", "sklearn", "torch", "jax"]


def test_an_app_is_two_files_that_can_be_read_back(tmp_path):
    written = write_app(tmp_path / "my app", "scaffold", "jax", ["anna", "ben"])
    assert sorted(path.name for path in (tmp_path / "my app").iterdir()) == ["federation.py", "pyproject.toml"]
    assert [path.exists() for path in written] == [True, True]
    table = tomllib.loads(written[0].read_text())
    assert table["project"]["name"] == "my-app"  # as Flower wants names
    app = read_app(tmp_path / "my app")
    settings = app.settings({})
    assert settings.ids == ["anna", "ben"]
    assert app.config["method.name"] == "scaffold"
    assert app.settings({"rounds": 7}).rounds == 7


def test_flower_packs_the_program_and_nothing_private(tmp_path):
    from flwr.cli.build import get_filtered_fab_paths

    write_app(tmp_path / "app", "fedavg", "numpy", ["0"])
    config = tomllib.loads((tmp_path / "app" / "pyproject.toml").read_text())
    there = ["federation.py", "pyproject.toml", "keys/ca.key", "keys/clients/0", "state/run/state.json", "state/x.py"]
    assert get_filtered_fab_paths(dict.fromkeys(there, b""), config) == ["federation.py"]


def test_every_method_of_the_catalogue_is_taken_or_refused_with_a_reason(tmp_path):
    from fedtide.methods import CATALOGUE

    refused = {}
    for name in CATALOGUE:
        try:
            write_app(tmp_path / name, name, "numpy", ["0", "1", "2"])
        except FedtideError as error:
            refused[name] = str(error)
            assert not (tmp_path / name).exists()
    assert set(refused) == {"fedpbc"}
    assert "train in rounds in which they are unavailable" in refused["fedpbc"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("fedavgg", "numpy", ["0"]), "did you mean 'fedavg'"),
        (("fedavg", "tensorflow", ["0"]), "--framework = 'tensorflow': must be numpy, sklearn, torch, jax"),
        (("fedavg", "numpy", []), "--clients"),
        (("fedavg", "numpy", ["a", "a"]), "different"),
        (("fedavg", "numpy", ['a"']), "without quotes"),
    ],
)
def test_bad_input_of_init(tmp_path, arguments, said):
    with pytest.raises(FedtideError, match=re.escape(said)):
        write_app(tmp_path / "app", *arguments)
    assert not (tmp_path / "app").exists()


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FedtideError, match="not empty"):
        write_app(tmp_path, "fedavg", "numpy", ["0"])
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "there is no such file"),
        ("[tool", "pyproject.toml: "),
        ("[project]\nname = 'x'", "[tool.flwr.app.config] is missing"),
        ("[tool.flwr.app.config]\nrounds = 1", "has no serverapp"),
    ],
)
def test_bad_folders(tmp_path, text, said):
    if text is not None:
        (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(FedtideError, match=re.escape(said)):
        read_app(tmp_path)


def test_settings_are_checked_with_their_key(tmp_path):
    path = write_app(tmp_path / "app", "fedavg", "numpy", ["0"])[0]
    text = path.read_text()
    path.write_text(text.replace("rounds = 20", "rounds = 0"))
    with pytest.raises(FedtideError, match="rounds = 0: must be"):
        read_app(path.parent).settings({})
    path.write_text(text.replace("rounds = 20\n", ""))
    with pytest.raises(FedtideError, match="has no key rounds; add it"):
        read_app(path.parent).settings({"rounds": 3})
    path.write_text(text.replace("round-seconds", "round_seconds"))
    assert read_app(path.parent).overridden({"round-seconds": 3.0}) == {"round_seconds": 3.0}


def test_clients_by_number_or_name():
    assert ids_of("--clients", "3") == ["0", "1", "2"]
    assert ids_of("--clients", "oslo, turin") == ["oslo", "turin"]
    with pytest.raises(FedtideError, match="separated by commas"):
        ids_of("--clients", "oslo,,turin")


def test_the_data_are_split_whole_and_unevenly(program, a_round):
    numpy = program("numpy")
    parts = [part for k in range(3) for part in numpy.data(a_round(k))]
    assert sum(len(digits) for _, digits in parts) == 1797
    counts = np.array([np.bincount(numpy.data(a_round(k))[0][1], minlength=10) for k in range(3)])
    assert (counts.sum(0) > 0).all()
    assert counts[0, 0] > 2 * counts[2, 0]  # the first client has the zeros
    assert counts[2, 9] > 2 * counts[0, 9]


@pytest.mark.parametrize("framework", FRAMEWORKS[1:])
def test_frameworks_give_the_same_numbers(program, framework):
    """Three rounds of a client's work: the models agree to 1e-5, and so do evaluations."""
    reference, other = program("numpy"), program(framework)
    found = [_worked(module, scaffold(rate=0.5, work=Steps(4, 8))) for module in (reference, other)]
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-5)
    assert np.abs(found[0][0]).max() > 0.01  # it has learned something


def _worked(module, method):
    arrays = [np.zeros((64, 10), np.float32), np.zeros(10, np.float32)]
    turned = module.initial({"seed": 0})[0].shape == (10, 64)  # PyTorch keeps them so
    arrays[0] = arrays[0].T.copy() if turned else arrays[0]
    row, shared = _memory(method, np.zeros(650, np.float32))
    trainer = Gradients(module.gradient, None, module.evaluate, module.examples)
    for t in range(3):
        node = {"partition-id": 1, "num-partitions": 3}
        round = Round(method, t, "1", 1, [array.shape for array in arrays], node, {}, seed=3)
        w = np.concatenate([array.ravel() for array in arrays])
        trained = trainer.train(w, round.opened(w, row, shared), row, shared)
        arrays = round.split(np.asarray(trained.w))
    measured = trainer.evaluate(np.asarray(trained.w), round)
    weights = arrays[0].T if turned else arrays[0]
    return weights, arrays[1], measured["loss"], measured["accuracy"], float(trained.loss)


def _memory(method, w):
    """A client's first row, and what the server shares."""
    import jax.numpy as jnp

    from fedtide.adapters.coordinator import Coordinator
    from fedtide.types import Population

    made = Coordinator(method, Population(jnp.full(3, 1 / 3), jnp.full(3, 400)), w, 0)
    return made.first_row(1), made.shared
