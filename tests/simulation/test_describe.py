"""What a run says of its methods is what was built, not what is usual."""

import pytest

import fedtide
from fedtide import methods as m
from fedtide.problems.quadratic import random_quadratic
from fedtide.simulation.describe import describe_method
from fedtide.simulation.setup import Setup

MOMENTUM = fedtide.solvers.Momentum(persistent=True)


@pytest.fixture(scope="module")
def setup():
    options = {"evaluate_every": 1, "history": 0, "record_clients": False, "chunk": None}
    federation = random_quadratic(clients=6, dimension=3, seed=0), fedtide.availability.Always(6)
    return Setup(*federation, {"m": m.fedavg()}, rounds=1, seeds=1, **options)


@pytest.mark.parametrize(
    ("method", "server", "client", "unbiased"),
    [
        (m.fedexp(), "2d", "–", "all clients take part"),
        (m.fedexp(control_variates=True), "3d", "d", "all clients take part"),
        (m.fedvarp(clients=2), "(N + 2) d", "–", m.find("fedvarp").facts.unbiased),
        (m.local_adaptive(state="persistent", correct=False), "d", "2d + scalars", "all clients take part"),
        (fedtide.compose(m.fedavg(), solver=MOMENTUM), "d", "d", "not declared with Momentum"),
        (fedtide.compose(m.ca_fed(), name="mine"), "d", "–", "not declared"),
    ],
)
def test_facts_are_those_of_the_built_method(setup, method, server, client, unbiased):
    facts = describe_method("m", method, setup.state(method), 6, 3)["facts"]
    assert (facts["server_memory"], facts["client_memory"], facts["unbiased"]) == (server, client, unbiased)
    assert facts["needs_losses"] == (method.name in ("ca_fed", "mine"))
