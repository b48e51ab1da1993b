"""A part and a method are five files each: in a copy of the package both then work everywhere."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

POLICY = '''
"""The most important clients."""

import jax.numpy as jnp

from fedtide.declared import Weighting
from fedtide.participation.base import Policy
from fedtide.participation.choice import largest
from fedtide.types import Decision, part


@part
class FirstClients(Policy):
    """The available `clients` that come first by importance; q_k = 1/|S|."""

    clients: int = 4

    def in_theory(self, importance, availability, inverse):
        return Weighting(jnp.ones(len(importance)), normalised=True, note="Followed as if all took part.")

    def decide(self, state, observation):
        invited = largest(observation.population.importance, observation.available, self.clients)
        return Decision(invited, jnp.where(invited, 1 / jnp.maximum(invited.sum(), 1), 0.0)), state
'''
METHOD = '''
"""FedFirst: train the most important clients."""

from fedtide.aggregation import WeightedSum
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import FirstClients
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.types import Work
from fedtide.work import Steps


@method(title="FedFirst", facts=Facts(unbiased="never"), bibtex="@misc{first, title = {First}}")
def fed_first(rate: float = 0.1, server_rate: float = 1.0, clients: int = 4, work: Work = Steps()) -> Method:
    """Train the most important of the available clients.

    w ← w − η_s Σ_{k∈S} Δ_k / |S|, S the `clients` available ones that come first by α.

    Args:
        clients: how many take part
    """
    policy, server = FirstClients(clients), Optimiser(rate=server_rate)
    return Method("fed_first", Blind(), policy, Sgd(rate, work), WeightedSum(), server)
'''
POLICY_TEST = """
from fedtide.participation import FirstClients


def test_capacity():
    assert FirstClients(2).capacity(5) == 2
"""
METHOD_TEST = """
from fedtide.methods import fed_first


def test_clients():
    assert fed_first(clients=3).participation.clients == 3
"""
CONFIG = """
[problem]
name = "quadratic"
clients = 12

[availability]
name = "bernoulli"
availability = 0.5

[run]
rounds = 3

[[methods]]
name = "fed_first"
clients = 2

[[methods]]
name = "fedavg"
label = "FedAvg of the first"
participation = {name = "first_clients", clients = 3}
"""
EVERYWHERE = """
import importlib.util, json, sys
import numpy as np
import fedtide
from fedtide import experiments, methods, participation
from fedtide.adapters.coordinator import Coordinator, Update
from fedtide.adapters.problem import ProblemTrainer, initial_model, population_of
from fedtide.adapters.rounds import Round
from fedtide.availability import Always
from fedtide.theory.experiment import predict

root, config = sys.argv[1:]
built = experiments.build(experiments.load(config))
method, problem = built.methods["FedFirst"], built.problem
predicted = predict(built, 3)

# The deployment's server and its clients, without a network.
result = fedtide.simulate(problem, Always(12), method, rounds=1)
coordinator = Coordinator(method, population_of(problem), initial_model(problem))
choice = coordinator.decide(coordinator.begin(0, np.ones(12, bool)))
invited, w = np.flatnonzero(choice.invited).tolist(), coordinator.model
answers = {}
for k in invited:
    at = Round(method, node={"partition-id": k})
    trained = ProblemTrainer(problem).train(w, at, coordinator.first_row(k), coordinator.shared)
    answers[k] = Update(w - trained.w, trained.loss, trained.steps, trained.mass, trained.rate)
coordinator.finish(choice, answers)

spec = importlib.util.spec_from_file_location("generate", f"{root}/docs/generate.py")
generate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(generate)
print(json.dumps({
    "from": fedtide.__file__,
    "invited": invited,
    "deployed as simulated": float(np.abs(coordinator.served - result.models["FedFirst"][0]).max()),
    "predicted": str(predicted),
    "docs": [generate.method_table(), generate.parts(), generate.reference(participation), generate.reference(methods),
             generate.arguments(methods.CATALOGUE)],
}))
"""


def added(path: Path, *lines: tuple[str, str]) -> None:
    """Lines of a file, each before the first place that starts with another text."""
    text = path.read_text("utf-8")
    for before, line in lines:
        assert before in text
        text = text.replace(before, line + before, 1)
    path.write_text(text, "utf-8")


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the source and the laws with a part and a method in it."""
    tree = tmp_path_factory.mktemp("five")
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for kept in ("conftest.py", "pyproject.toml", "tests/conftest.py", "CHANGELOG.md", "docs/methods.md"):
        (tree / kept).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / kept, tree / kept)
    shutil.copytree(ROOT / "tests" / "laws", tree / "tests" / "laws", ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "config.toml").write_text(CONFIG)
    before = files(tree)
    package = tree / "src" / "fedtide"
    (package / "participation" / "first_clients.py").write_text(POLICY)
    added(
        package / "participation" / "__init__.py",
        ("from fedtide.participation.graph", "from fedtide.participation.first_clients import FirstClients\n"),
        ('    "GraphSpread"', '    "FirstClients",\n'),
    )
    added(tree / "tests" / "laws" / "parts.py", ('    "graph spread"', '    "first clients": p.FirstClients(3),\n'))
    (tree / "tests" / "test_first_clients.py").write_text(POLICY_TEST)
    added(tree / "CHANGELOG.md", ("\n## ", "\n* `FirstClients`\n"))
    assert len(changed(before, tree)) == 5
    before = files(tree)
    (package / "methods" / "fed_first.py").write_text(METHOD)
    added(
        package / "methods" / "__init__.py",
        ("from fedtide.methods.fedau", "from fedtide.methods.fed_first import fed_first\n"),
        ('    "fedadagrad"', '    "fed_first",\n'),
    )
    (tree / "tests" / "test_fed_first.py").write_text(METHOD_TEST)
    added(tree / "CHANGELOG.md", ("\n* `FirstClients`", "\n* `fed_first`"))
    added(tree / "docs" / "methods.md", ("| m, balanced", "| the first m | `fed_first(clients=4)` | bias |\n"))
    assert len(changed(before, tree)) == 5
    return tree


def files(tree: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}


def changed(before: dict[Path, bytes], tree: Path) -> set[Path]:
    return {path for path, content in files(tree).items() if before.get(path) != content}


def run(tree: Path, *command: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, *command], cwd=tree, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_both_work_in_building_simulation_theory_deployment_and_docs(tree):
    found = json.loads(run(tree, "-c", EVERYWHERE, str(ROOT), str(tree / "config.toml")))
    assert Path(found["from"]).is_relative_to(tree)
    assert found["invited"] == [0, 1]
    assert found["deployed as simulated"] < 1e-5
    assert "Followed as if all took part." in str(found["predicted"])
    table, parts, policies, methods, arguments = found["docs"]
    assert "`fed_first`" in table
    assert "`first_clients`" in parts
    assert "participation.first_clients.FirstClients" in policies
    assert "methods.fed_first.fed_first" in methods
    assert "how many take part" in arguments


def test_both_work_on_the_command_line(tree):
    assert "Train the most important of the available clients" in run(tree, "-m", "fedtide", "methods", "fed_first")
    said = run(tree, "-m", "fedtide", "run", "config.toml", "--out", "results")
    assert "FedFirst" in said
    assert "FedAvg of the first" in said
    assert "FedFirst" in run(tree, "-m", "fedtide", "theory", "config.toml", "--out", "theory.html")


def test_the_laws_test_both(tree):
    laws = ("tests/laws/test_policies.py", "tests/laws/test_methods.py", "tests/laws/test_composition.py")
    own = ("tests/test_first_clients.py", "tests/test_fed_first.py")
    said = run(tree, "-m", "pytest", "-n", "0", "-v", "-k", "first or every_public", *laws, *own)
    assert "[first clients]" in said
    assert "[fed_first]" in said
