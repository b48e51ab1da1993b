"""Real processes on loopback: five SuperNodes give the simulator's parameters."""

import time

import numpy as np
import pytest

import fedtide

pytest.importorskip("flwr", reason="needs pip install 'fedtide[flower]'")

from fedtide.adapters.deploy.local import LocalFederation
from fedtide.experiments.build import named_method, named_problem
from fedtide.experiments.place import Place

ROUNDS = 5
PROBLEM = {"name": "synthetic_leaf", "clients": 5}
APP = """
[project]
name = "same-numbers"
version = "1.0.0"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "fedtide"

[tool.flwr.app.components]
serverapp = "fedtide.adapters.flower.problem_server:app"
clientapp = "fedtide.adapters.flower.problem_client:app"

[tool.flwr.app.config]
rounds = 5
clients = "0,1,2,3,4"
importance = "{importance}"
state = "{state}"
method.name = "{method}"
method.rate = 0.01
local.steps = 3
local.batch = 8
problem.name = "synthetic_leaf"
problem.clients = 5
enrol-seconds = 60
"""


def _same_numbers(method, tmp_path):
    from safetensors.numpy import load_file

    problem = named_problem(PROBLEM, Place("test"))
    alpha = np.asarray(problem.importance)
    importance = "uniform" if np.allclose(alpha, alpha[0]) else "size"
    app = tmp_path / "app"
    app.mkdir()
    (app / "pyproject.toml").write_text(APP.format(method=method, state=tmp_path / "server", importance=importance))
    with LocalFederation(tmp_path / "federation", 5) as federation:
        run = federation.run(app)
        model = tmp_path / "server" / "run" / "model.safetensors"
        end = time.monotonic() + 600
        while not model.exists() and time.monotonic() < end and not federation.status(run).finished:
            time.sleep(2)
        assert model.exists(), federation.log("superexec")[-3000:]
    built = named_method({"name": method, "rate": 0.01}, {"steps": 3, "batch": 8}, problem.sizes, Place("test"))
    always = fedtide.availability.Always(5)
    result = fedtide.simulate(problem, always, {method: built}, rounds=ROUNDS, evaluate_every=ROUNDS)
    found = load_file(model)["0"]
    np.testing.assert_allclose(found, result.models[method][0], atol=1e-6, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fedavg", "ca_fed", "fedvarp", "scaffold", "fednova", "fed_cvar_avg"])
def test_five_processes_give_the_simulators_parameters(method, tmp_path):
    _same_numbers(method, tmp_path)
