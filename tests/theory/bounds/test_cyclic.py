import numpy as np
import pytest

from fedtide.errors import InvalidInput
from fedtide.theory import QuadraticFamily, cyclic_error, cyclic_order

CLIENTS = 12


def federation(groups, seed=0):
    """Quadratics with one Hessian, whose gradients differ by the same vector everywhere: α and γ are exact."""
    random = np.random.default_rng(seed)
    hessian = np.diag([0.25, 0.5, 1.0])
    family = QuadraticFamily(np.tile(hessian, (CLIENTS, 1, 1)), random.normal(size=(CLIENTS, 3)))
    own = family.gradients(np.zeros(3)).reshape(groups, -1, 3)
    means = own.mean(1)
    between = np.linalg.norm(means - means.mean(0), axis=1).max()
    within = np.linalg.norm(own - means[:, None], axis=2).max()
    return family, float(between), float(within)


def train(family, groups, cohort, cycles, rate, local_steps, runs=32, seed=0):
    """F(w) − F* of each run after the cycles, and at the start."""
    random = np.random.default_rng(seed)
    hessian, mean, size = family.hessians[0], family.centres.mean(0), CLIENTS // groups
    w = np.full((runs, 3), 2.0)
    for turn in range(cycles * groups):
        chosen = random.permuted(np.tile(np.arange(size), (runs, 1)), axis=1)[:, :cohort] + turn % groups * size
        local = np.repeat(w[:, None], cohort, axis=1)
        for _ in range(local_steps):
            local = local - rate * (local - family.centres[chosen]) @ hessian
        w = local.mean(1)
    return 0.5 * np.einsum("ri,ij,rj->r", w - mean, hessian, w - mean), 0.5 * (2 - mean) @ hessian @ (2 - mean)


@pytest.mark.parametrize(("groups", "cohort"), [(1, 3), (3, 4), (3, 2), (4, 1), (12, 1)])
@pytest.mark.parametrize(("cycles", "local_steps"), [(5, 1), (100, 1), (20, 3)])
def test_it_is_above_simulation(groups, cohort, cycles, local_steps):
    """Mean plus four standard errors of 32 runs: a correct program fails for fewer than 1 in 10⁴ seeds each."""
    family, between, within = federation(groups)
    rate = 0.08 / groups / local_steps
    errors, start = train(family, groups, cohort, cycles, rate, local_steps)
    numbers = (1.0, 0.25, start, cycles, groups, CLIENTS, cohort / CLIENTS, between, within, rate, local_steps)
    bound = cyclic_error(*numbers)
    assert errors.mean() + 4 * errors.std(ddof=1) / np.sqrt(32) <= bound.total
    assert (bound["sampling"] == 0) == (cohort == CLIENTS // groups)


def test_which_terms_vanish():
    whole_group = cyclic_order(1.0, 0.25, 1.0, 100, 3, CLIENTS, 1 / 3, 0.5, 0.7)
    assert whole_group["sampling"] == 0
    one_group = cyclic_order(1.0, 0.25, 1.0, 100, 1, CLIENTS, 0.25, 0.0, 0.7)
    assert one_group["cycling"] == 0
    assert one_group["sampling"] > 0
    one_by_one = cyclic_order(1.0, 0.25, 1.0, 100, CLIENTS, CLIENTS, 1 / CLIENTS, 0.5, 0.0)
    assert one_by_one["sampling"] == 0
    explicit = cyclic_error(1.0, 0.25, 1.0, 10, 3, CLIENTS, 1 / 3, 0.5, 0.7, 0.01)
    assert explicit["sampling"] == explicit["drift"] == 0


def test_orders_of_the_slides():
    """With h = 4 ln T/(μT) the explicit terms fall as the printed ones: 1/T² for cycling, 1/T for sampling."""

    def explicit(rounds):
        rate = 4 * np.log(rounds) / (0.25 * rounds)
        return cyclic_error(1.0, 0.25, 1.0, rounds // 3, 3, CLIENTS, 2 / CLIENTS, 0.5, 0.7, rate)

    def printed(rounds):
        return cyclic_order(1.0, 0.25, 1.0, rounds, 3, CLIENTS, 2 / CLIENTS, 0.5, 0.7)

    low, high = 3 * 10**6, 3 * 10**8
    logs = np.log(high) / np.log(low)
    for name, power in (("cycling", 2), ("sampling", 1)):
        assert explicit(low)[name] / explicit(high)[name] * logs**power == pytest.approx(
            printed(low)[name] / printed(high)[name], rel=0.05
        )
    assert explicit(high)["start"] < explicit(high)["sampling"]


@pytest.mark.parametrize(("change", "word"), [({"rate": 1.0}, "small enough"), ({"fraction": 0.5}, "one whole group")])
def test_bad_input(change, word):
    given = {
        "smoothness": 1.0, "convexity": 0.25, "start": 1.0, "cycles": 10, "groups": 3, "clients": CLIENTS,
        "fraction": 1 / 6, "between": 0.5, "within": 0.7, "rate": 0.01,
    }  # fmt: skip
    with pytest.raises(InvalidInput, match=word):
        cyclic_error(**given | change)
