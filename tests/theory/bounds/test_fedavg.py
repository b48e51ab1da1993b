import numpy as np
import pytest

from fedtide.errors import InvalidInput
from fedtide.theory import QuadraticFamily, fedavg_error, fedvarp_error

NUMBERS = {
    "smoothness": 1.0, "start": 2.0, "rounds": 100, "local_steps": 4, "rate": 0.01, "server_rate": 1.0,
    "cohort": 3, "clients": 10, "noise": 0.5, "heterogeneity": 0.7,
}  # fmt: skip


def same_curvature(clients, dimension, seed):
    """F_k with one Hessian: ∇F_k − ∇F is the same everywhere, so σ_g² is exact."""
    random = np.random.default_rng(seed)
    hessian = np.diag(np.linspace(0.2, 1.0, dimension))
    family = QuadraticFamily(np.tile(hessian, (clients, 1, 1)), random.normal(size=(clients, dimension)))
    gradients = family.gradients(np.zeros(dimension))
    return family, float(((gradients - gradients.mean(0)) ** 2).sum(1).mean())


def train(family, cohort, rounds, local_steps, rate, server_rate, sigma, runs=48, seed=0):
    """mean_t ‖∇F(w_t)‖² of each run of FedAvg with uniform cohorts."""
    random = np.random.default_rng(seed)
    clients, d = family.centres.shape
    w, total, share = np.full((runs, d), 2.0), np.zeros(runs), np.full(clients, 1 / clients)
    hessian, mean = family.hessian(w[0], share), family.minimise(share)
    for _ in range(rounds):
        total += (((w - mean) @ hessian) ** 2).sum(1)
        chosen = random.permuted(np.tile(np.arange(clients), (runs, 1)), axis=1)[:, :cohort]
        centres, local = family.centres[chosen], np.repeat(w[:, None], cohort, axis=1)
        for _ in range(local_steps):
            noise = sigma / np.sqrt(d) * random.standard_normal(local.shape)
            local = local - rate * ((local - centres) @ hessian + noise)
        w = w - server_rate * (w[:, None] - local).mean(1)
    start = 0.5 * (2.0 - mean) @ hessian @ (2.0 - mean)
    return total / rounds, float(start)


@pytest.mark.parametrize("cohort", [1, 3, 10])
@pytest.mark.parametrize(("local_steps", "rate", "rounds"), [(1, 0.3, 50), (5, 0.03, 50), (5, 0.03, 400)])
def test_it_is_above_simulation(cohort, local_steps, rate, rounds):
    """Mean plus four standard errors of 48 runs: a correct program fails for fewer than 1 in 10⁴ seeds each."""
    family, heterogeneity = same_curvature(10, 3, seed=1)
    found, start = train(family, cohort, rounds, local_steps, rate, 1.0, sigma=0.7)
    bound = fedavg_error(1.0, start, rounds, local_steps, rate, 1.0, cohort, 10, 0.49, heterogeneity)
    assert found.mean() + 4 * found.std(ddof=1) / np.sqrt(48) <= bound.total


def test_what_removes_which_term():
    bound = fedavg_error(**NUMBERS)
    assert bound.terms.keys() == {"start", "noise", "participation", "drift"}
    assert all(term > 0 for term in bound.terms.values())
    assert fedavg_error(**NUMBERS | {"cohort": 10})["participation"] == 0
    assert fedavg_error(**NUMBERS | {"local_steps": 1})["drift"] == 0
    assert fedavg_error(**NUMBERS | {"noise": 0.0})["noise"] == 0
    printed, varp = fedavg_error(**NUMBERS, version="printed"), fedvarp_error(**NUMBERS)
    assert varp["participation"] == 0
    assert printed.total - varp.total == pytest.approx(printed["participation"])
    assert varp["drift"] == printed["drift"] > 0  # FedVARP does not remove client drift


def test_explicit_constants_are_larger():
    printed, explicit = fedavg_error(**NUMBERS, version="printed"), fedavg_error(**NUMBERS)
    assert all(explicit[name] >= printed[name] for name in printed.terms)


@pytest.mark.parametrize(
    ("change", "word"), [({"rate": 1.0}, "2 L η_s η τ"), ({"cohort": 11}, "from 1 to 10"), ({"noise": -1.0}, "noise")]
)
def test_bad_input(change, word):
    with pytest.raises(InvalidInput, match=word):
        fedavg_error(**NUMBERS | change)
