import numpy as np
import pytest

from fedtide.theory import CaFed, Clients, SoftmaxFamily, Training, Weighting, stationary_variance
from fedtide.theory.prediction import predict_methods, recorded_rounds

CLIENTS, D = 8, 3
ALPHA, PI = np.full(CLIENTS, 1 / CLIENTS), np.where(np.arange(CLIENTS) < 4, 0.9, 0.2)
PEOPLE = Clients(ALPHA, PI, np.full(CLIENTS, 0.5), [f"π = {p}" for p in PI])
TRAINING = Training(rate=0.02, server_rate=1.0, local_steps=2, samples=np.inf)
PLANS = {
    "fixed": Weighting(ALPHA, training=TRAINING),
    "unbiased": Weighting(ALPHA / PI, training=TRAINING),
    "adafed": Weighting(ALPHA / PI, normalised=True, training=TRAINING),
    "ca_fed": Weighting(ALPHA / PI, ca_fed=CaFed(kappa_squared=0.1), training=TRAINING),
    "limit only": Weighting(ALPHA),
    "unknown": Weighting(note="not modelled"),
}


@pytest.fixture(scope="module")
def family(quadratics):
    return quadratics(CLIENTS, D, seed=2)


@pytest.fixture(scope="module")
def found(family):
    return predict_methods(PEOPLE, PLANS, 150, family, np.ones(D))


def test_each_kind_of_weighting(found):
    f = found.methods
    assert f["unbiased"].misplaced == pytest.approx(0, abs=1e-12)
    assert f["fixed"].misplaced > f["adafed"].misplaced > 0
    assert f["fixed"].bias.error > 0
    assert f["limit only"].path is None
    assert f["limit only"].bias.error == pytest.approx(f["fixed"].bias.error)
    assert f["unknown"] == type(f["unknown"])(note="not modelled")
    assert f["adafed"].bound is None  # Theorem 2 is about fixed weights
    assert f["unbiased"].bound.total > 0
    assert f["ca_fed"].exclusions is not None
    kept = f["ca_fed"].exclusions.kept
    np.testing.assert_allclose(f["ca_fed"].importance, np.where(kept, ALPHA, 0) / ALPHA[kept].sum())


def test_the_paths_are_paths(found, family):
    for label in ("fixed", "unbiased", "adafed", "ca_fed"):
        path = found.methods[label].path
        assert path.rounds[0] == 0
        assert path.rounds[-1] == 150
        assert path.error[0] == pytest.approx(found.start)
    drifted = family.after_local_steps(0.02, 2)
    spread = stationary_variance(family, ALPHA, ALPHA / PI, PI, PEOPLE.correlation, 0.04, dynamics=drifted)
    assert found.methods["unbiased"].path.variance[-1] == pytest.approx(spread.excess, rel=0.2)


def test_steps_that_are_too_large(family):
    wild = predict_methods(
        PEOPLE, {"wild": Weighting(ALPHA, training=TRAINING._replace(server_rate=500.0))}, 50, family
    )
    assert wild.methods["wild"].diverges
    assert wild.methods["wild"].bias is not None


def test_a_client_that_moves_the_model_far(family):
    persistent = PEOPLE._replace(correlation=np.full(CLIENTS, 0.95))
    large = Weighting(ALPHA / PI, training=TRAINING._replace(server_rate=4.0))
    assert predict_methods(persistent, {"u": large}, 20, family).methods["u"].rough
    assert not predict_methods(PEOPLE, {"u": PLANS["unbiased"]}, 20, family).methods["u"].rough


def test_without_a_family_only_weights_are_predicted():
    found = predict_methods(PEOPLE, PLANS, 50)
    assert found.constants is None
    assert found.methods["fixed"].misplaced == pytest.approx(0.5 * np.abs(ALPHA - PI / PI.sum()).sum())
    assert all(f.path is None and f.bias is None for f in found.methods.values())
    assert found.methods["ca_fed"].importance is None  # it looks at losses


def test_clients_that_are_not_independent():
    """Two clients take turns: the available one gets all the weight, so normalised inverse weights are unbiased."""
    turns = np.arange(400)[:, None] % 2 == np.arange(2)
    clients = Clients(np.full(2, 0.5), np.full(2, 0.5), np.full(2, -1.0), ["a", "b"], chains=False, observed=turns)
    found = predict_methods(clients, {"adafed": Weighting(np.array([0.9, 0.1]), normalised=True)}, 10)
    np.testing.assert_allclose(found.methods["adafed"].importance, [0.5, 0.5])


def test_softmax():
    random = np.random.default_rng(0)
    family = SoftmaxFamily(random.normal(size=(80, 2)), random.integers(0, 2, 80), np.full(CLIENTS, 10), 0.1, 2)
    plans = {"unbiased": Weighting(ALPHA / PI, training=TRAINING._replace(samples=10.0))}
    with_variance, without = (
        predict_methods(PEOPLE, plans, 40, family, variance=c).methods["unbiased"] for c in (True, False)
    )
    assert with_variance.path.variance[-1] > 0 == without.path.variance[-1]
    np.testing.assert_allclose(with_variance.path.convergence, without.path.convergence)
    assert with_variance.bound.terms["noise"] > 0


def test_recorded_rounds():
    found = recorded_rounds(5000)
    assert found[0] == 0
    assert found[-1] == 5000
    assert len(found) <= 120
    assert recorded_rounds(3).tolist() == [0, 1, 2, 3]
