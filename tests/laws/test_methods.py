"""Laws of methods: what they declare is what they do."""

import jax
import numpy as np
import pytest

import fedtide
from fedtide.methods import CATALOGUE, compose
from fedtide.simulation.memory import size_of
from fedtide.types import Population


@pytest.fixture(params=CATALOGUE, ids=list(CATALOGUE))
def entry(request):
    return CATALOGUE[request.param]


def test_declared_needs_are_the_policy_s(entry):
    policy = entry.build().participation
    assert entry.facts.needs_losses == policy.needs_losses
    assert entry.facts.needs_estimates == policy.needs_estimates


def test_declared_memory_is_measured(entry):
    """Bytes of state grow with d once, and with N by scalars only, unless rows are declared."""
    method = entry.build()

    def state(clients: int, parameters: int) -> int:
        alpha = np.full(clients, 1 / clients, np.float32)
        known = Population(alpha, np.full(clients, 5), alpha, alpha, alpha)
        parts = jax.eval_shape(
            lambda: (
                method.estimator.init(known),
                method.participation.init(known),
                method.solver.init(known, parameters),
                method.aggregation.init(known, parameters),
            )
        )
        return size_of(parts)

    a_client = (state(1000, 7) - state(500, 7)) / 500
    rows = (state(1000, 107) - state(1000, 7)) / 100 / 4
    assert "N" in entry.facts.server_memory or a_client <= 4  # α itself is not the method's memory
    assert a_client <= 40
    assert rows == 0 or "Nd" in entry.facts.server_memory.replace(" ", "")


def test_it_can_be_cited_and_explained(entry):
    assert entry.bibtex.startswith("@")
    assert entry.bibtex.count("{") == entry.bibtex.count("}")
    assert entry.summary.endswith(".")
    assert "w ← w − η_s" in entry.equations


def test_plain_numbers_are_leaves(entry):
    """Every float hyper-parameter can be swept as a batch axis."""
    method = entry.build()
    leaves = {jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(method)}
    assert {".solver.rate", ".server.rate"} <= leaves


def test_composition_replaces_parts_and_refuses_nonsense():
    base = fedtide.methods.ca_fed()
    solver = fedtide.solvers.Proximal(mu=0.3)
    assert compose(base, solver=solver).solver is solver
    with pytest.raises(fedtide.FedtideError, match="did you mean 'solver'"):
        compose(base, solvers=solver)
    with pytest.raises(fedtide.FedtideError, match="Unbiased looks at π̂"):
        compose(fedtide.methods.fedavg(), participation=fedtide.participation.Unbiased())


def test_find_suggests():
    assert fedtide.methods.find("ca_fed").title == "CA-Fed"
    with pytest.raises(fedtide.FedtideError, match="did you mean 'ca_fed'"):
        fedtide.methods.find("cafed")
