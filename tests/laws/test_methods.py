"""Laws of methods: what they declare is what they do."""

import functools

import jax
import jax.numpy as jnp
import pytest

import fedtide
from fedtide.methods import CATALOGUE, compose
from fedtide.types import Population


@pytest.fixture(params=CATALOGUE, ids=list(CATALOGUE))
def entry(request):
    return CATALOGUE[request.param]


def test_declared_memory_is_measured(entry):
    """State grows with d, N and N·d exactly as declared; what clients keep is theirs, all else the server's."""
    method, facts = entry.build(), entry.facts
    clusters = getattr(method.aggregation, "clusters", 0) if facts.server_rows == "K" else 0
    server, client = growth(method)
    assert server["N d"] == (facts.server_rows == "N")
    assert server["d"] == facts.server_models + clusters
    assert client["N d"] == facts.client_models
    assert (client["N"] > 0) == facts.client_scalars
    assert (server["N"] > 0) == facts.server_scalars


def growth(method) -> tuple[dict[str, float], dict[str, float]]:
    """Numbers in the state of (the server, the clients) for each parameter, each client, and each pair of them."""
    small, large, few, many = 10, 110, 50, 150

    def differences(size):
        both = (size(many, large) - size(many, small) - size(few, large) + size(few, small)) / 100 / 100
        parameters = (size(few, large) - size(few, small)) / 100 - few * both
        clients = (size(many, small) - size(few, small)) / 100 - small * both
        return {"N d": both, "d": parameters, "N": clients}

    return tuple(differences(lambda n, d, i=i: numbers(method, n, d)[i]) for i in (0, 1))  # pyright: ignore


@functools.cache
def numbers(method, clients: int, parameters: int) -> tuple[int, int]:
    """Numbers kept between rounds by the server and by the clients; α itself is the problem's."""
    alpha = jnp.arange(1.0, clients + 1) / (clients * (clients + 1) / 2)
    one = jnp.ones(clients)
    known = Population(alpha, jnp.full(clients, 5), 0.5 * one, 0.1 * one, 0 * one, jnp.ones((clients, 3)))
    w = jnp.zeros(parameters)
    solver = method.solver.init(known, w)
    parts = method.estimator.init(known), method.participation.init(known)
    server = (w, parts, solver.shared, method.aggregation.init(known, parameters), method.server.init(w))
    kept = [leaf for leaf in jax.tree.leaves(server) if not (leaf.shape == alpha.shape and (leaf == alpha).all())]
    return sum(leaf.size for leaf in kept), sum(leaf.size for leaf in jax.tree.leaves(solver.client))


def test_it_can_be_cited_and_explained(entry):
    assert entry.bibtex.startswith("@")
    assert entry.bibtex.count("{") == entry.bibtex.count("}")
    assert entry.summary.endswith(".")
    assert "w ← w − η_s" in entry.equations


def test_plain_numbers_are_leaves(entry):
    """Every float hyper-parameter can be swept as a batch axis."""
    method = entry.build()
    leaves = {jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(method)}
    for kind in (".solver", ".server"):
        assert any(leaf.startswith(kind) and leaf.endswith(".rate") for leaf in leaves), kind


def test_composition_replaces_parts_and_refuses_nonsense():
    base = fedtide.methods.ca_fed()
    solver = fedtide.solvers.Proximal(mu=0.3)
    assert compose(base, solver=solver).solver is solver
    with pytest.raises(fedtide.FedtideError, match="did you mean 'solver'"):
        compose(base, solvers=solver)
    with pytest.raises(fedtide.FedtideError, match="estimates π̂, such as Bayesian: Unbiased uses it"):
        compose(fedtide.methods.fedavg(), participation=fedtide.participation.Unbiased())


def test_find_suggests():
    assert fedtide.methods.find("ca_fed").title == "CA-Fed"
    with pytest.raises(fedtide.FedtideError, match="did you mean 'ca_fed'"):
        fedtide.methods.find("cafed")
