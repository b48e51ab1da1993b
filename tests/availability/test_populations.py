from collections import Counter

import numpy as np
import pytest

from fedtide.availability import paper_population, spatial_population
from fedtide.errors import InvalidInput


def test_paper_population():
    population = paper_population()
    pi, lam = population.availability, population.correlation
    np.testing.assert_allclose(pi, np.repeat([0.9, 0.1], 50), rtol=1e-12)
    persistent = lam == 0.9
    np.testing.assert_array_equal(np.flatnonzero(persistent), [*range(25), *range(50, 75)])
    weak = lam[~persistent]
    # 50 draws from N(0, 0.01²): 5.5 standard errors of mean and of standard deviation (4e-8 each).
    assert abs(weak.mean()) < 5.5 * 0.01 / 50**0.5
    assert abs(weak.std() - 0.01) < 5.5 * 0.01 / 100**0.5
    assert Counter(population.classes()) == dict.fromkeys(
        ["π = 0.9, persistent", "π = 0.9, weakly correlated", "π = 0.1, persistent", "π = 0.1, weakly correlated"], 25
    )


def test_paper_population_options():
    population = paper_population(clients=7, gap=0.3, correlation=0.5, spread=0.0)
    np.testing.assert_allclose(population.availability, [0.8] * 4 + [0.2] * 3)
    np.testing.assert_array_equal(population.correlation, [0.5, 0.5, 0, 0, 0.5, 0.5, 0])
    other = paper_population(seed=1)
    assert not np.array_equal(other.correlation, paper_population().correlation)


def test_weak_correlation_stays_admissible():
    # A spread of 1 would leave the admissible range of π = 0.9, which begins at −1/9.
    lam = paper_population(spread=1.0).correlation
    assert lam.min() == pytest.approx(-1 / 9)
    assert lam.max() < 1


def test_spatial_population():
    population = spatial_population()
    assert population.clients == 100
    np.testing.assert_array_equal(population.availability, np.repeat([0.9] * 5 + [0.1] * 5, 10))
    np.testing.assert_allclose(population.correlation, np.repeat([0] * 5 + [0.5, 0.6, 0.7, 0.8, 0.9], 10))
    assert Counter(population.classes()) == {"π = 0.9, weakly correlated": 50, "π = 0.1, persistent": 50}
    trace = population.sample(0, 50).reshape(50, 10, 10)
    assert (trace == trace[:, :, :1]).all()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: paper_population(gap=0.6), r"gap = 0.6: must be in \[0, 0.5\]"),
        (lambda: paper_population(clients=0), "clients = 0"),
        (lambda: paper_population(correlation=1.0), r"correlation\[0\] = 1.0"),
        (lambda: paper_population(spread=-1), "spread = -1"),
        (lambda: spatial_population(clusters=1), "clusters = 1"),
        (lambda: spatial_population(clients_per_cluster=0), "clients_per_cluster = 0"),
    ],
)
def test_bad_populations(build, message: str):
    with pytest.raises(InvalidInput, match=message):
        build()
