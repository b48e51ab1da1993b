"""Predictions for the library's own parts, and whether simulations agree."""

import numpy as np
import pytest

import fedtide
from fedtide.availability import Bernoulli, Clusters, Cyclic, Markov
from fedtide.estimators import Oracle
from fedtide.experiments.build import Experiment
from fedtide.methods import (
    CATALOGUE,
    adafed,
    ca_fed,
    compose,
    debiased_fedavg,
    fedau,
    fedavg,
    fednova,
    fedstale,
    mifa,
    most_available,
    scaffold,
    unbiased,
)
from fedtide.participation import Everyone, Subsample, Unbiased
from fedtide.participation.base import Policy
from fedtide.problems import classification, digits, quadratic, random_quadratic, softmax_regression
from fedtide.schedules import PerClient, PowerDecay
from fedtide.servers import Optimiser, Projected
from fedtide.solvers import Momentum
from fedtide.theory import Clients, Weighting
from fedtide.theory.experiment import known_problem, predict, weighting
from fedtide.types import part
from fedtide.work import Epochs, FullBatch, RandomSteps, Steps, StepsPerClient

CLIENTS = 6
ALPHA, PI = np.full(CLIENTS, 1 / CLIENTS), np.array([0.9, 0.9, 0.9, 0.3, 0.3, 0.3])
LAM = np.array([0.0, 0.5, 0.0, 0.5, 0.0, 0.5])
PEOPLE = Clients(ALPHA, PI, LAM, ["a"] * CLIENTS)
SIZES = np.array([10, 20, 30, 40, 50, 60])


def test_weights_of_methods():
    assert weighting(fedavg(), PEOPLE, SIZES).normalised
    np.testing.assert_allclose(weighting(unbiased(), PEOPLE, SIZES).score, ALPHA / PI)
    assert weighting(adafed(), PEOPLE, SIZES).normalised
    np.testing.assert_allclose(weighting(most_available(fraction=0.5), PEOPLE, SIZES).score, ALPHA / PI * (PI > 0.5))
    assert weighting(ca_fed(kappa_squared=0.3), PEOPLE, SIZES).ca_fed.kappa_squared == pytest.approx(0.3)
    assert weighting(ca_fed(optimum="running_min"), PEOPLE, SIZES).score is None
    np.testing.assert_allclose(weighting(fedavg(clients=2), PEOPLE, SIZES).score, 1)
    fewer = compose(unbiased(), participation=Subsample(Unbiased(), 2))
    np.testing.assert_allclose(weighting(fewer, PEOPLE, SIZES).score, ALPHA / PI)


def test_steps_of_methods():
    found = weighting(unbiased(rate=0.1, server_rate=2.0, work=Steps(3, 8)), PEOPLE, SIZES).training
    assert found == (0.1, 2.0, 3, 24)
    assert found.step == pytest.approx(0.6)
    assert weighting(unbiased(work=FullBatch(60, 2)), PEOPLE, SIZES).training.samples == np.inf
    assert weighting(compose(unbiased(), solver=Momentum()), PEOPLE, SIZES).training is None


def test_more_local_steps_count_as_importance():
    counts = np.array([1, 1, 1, 1, 1, 7])
    several = weighting(unbiased(work=StepsPerClient(counts, 4)), PEOPLE, SIZES)
    np.testing.assert_allclose(several.factor, counts / counts.mean())
    passes = weighting(unbiased(work=Epochs(2, 10)), PEOPLE, SIZES)
    np.testing.assert_allclose(passes.factor, SIZES / SIZES.mean())
    assert weighting(unbiased(), PEOPLE, SIZES).factor is None


def test_higher_rates_count_as_importance():
    rates, counts = np.array([1, 1, 2, 2, 4, 8.0]), np.array([1, 1, 1, 1, 1, 7])
    differing = PerClient(rates, PowerDecay())
    for work, effort in ((Steps(2), rates), (RandomSteps(1, 4, 8), rates), (StepsPerClient(counts), rates * counts)):
        for found in (
            weighting(unbiased(schedule=differing, work=work), PEOPLE, SIZES),
            weighting(mifa(schedule=differing, work=work), PEOPLE, SIZES),
            weighting(compose(unbiased(), solver=Momentum(schedule=differing, work=work)), PEOPLE, SIZES),
        ):
            np.testing.assert_allclose(found.factor, effort / effort.mean())
            assert found.training is None
            assert "more or longer steps have a larger effective importance" in found.note
    for equal in (fednova(schedule=differing), scaffold(schedule=differing)):
        assert weighting(equal, PEOPLE, SIZES).factor is None
    counts[0] = 49  # 49 · (1 / 49) < 1 in floating-point numbers
    compensated = unbiased(schedule=PerClient(1 / counts), work=StepsPerClient(counts))
    assert weighting(compensated, PEOPLE, SIZES).factor is None


def test_families():
    assert known_problem(random_quadratic(3, 2)).family.dimension == 2
    problem = digits(clients=3)
    assert known_problem(problem).family.dimension == 650
    train = [(np.eye(2), np.array([0, 1]))] * 2
    assert known_problem(classification(softmax_regression(2, 2), train, ridge=0.0)) is None
    own = (lambda key: {"weight": np.zeros((2, 2)), "bias": np.zeros(2)}, lambda p, x: x @ p["weight"] + p["bias"])
    assert known_problem(classification(own, train)) is None  # looks like it, but may be anything


@pytest.mark.parametrize("build", [unbiased, adafed])
def test_simulations_end_at_the_predicted_error(build):
    """The mean objective of the last rounds over 64 seeds, within five standard errors and a tenth of the error.

    A correct program fails for fewer than 1 in 10⁴ seeds; the tenth allows for second order in the step.
    """
    problem = random_quadratic(CLIENTS, 3, condition=4.0, noise=0.5, seed=1)
    method = build(rate=0.03, work=Steps(2, 4), estimator=Oracle())
    experiment = Experiment(problem, Markov(PI, LAM), {"m": method}, {})
    found = predict(experiment, 150)
    run = fedtide.simulate(problem, experiment.availability, method, rounds=150, seeds=64, evaluate_every=30)
    last = run.rounds.filter(run.rounds["round"] == 150)["objective"].to_numpy() - found.optimum
    predicted = found.methods["m"].path.error[-1]
    assert abs(last.mean() - predicted) <= 5 * last.std(ddof=1) / 8 + 0.1 * predicted


def test_biased_weights_end_at_the_biased_optimum():
    """With all clients always available, only unequal steps bias; simulations converge to the biased optimum."""
    problem = quadratic([1.0, 1.0], [[-1.0], [1.0]])
    method = fedavg(rate=0.01, work=StepsPerClient(np.array([1, 3]), 1))
    found = predict(Experiment(problem, Bernoulli([1.0, 1.0]), {"m": method}, {}), 1200)
    end = found.methods["m"]
    np.testing.assert_allclose(end.importance, [0.25, 0.75])
    run = fedtide.simulate(problem, Bernoulli([1.0, 1.0]), method, rounds=1200, evaluate_every=50)
    reached = run.rounds["objective"].to_list()[-1] - found.optimum
    assert reached == pytest.approx(end.bias.error, rel=0.05)
    assert end.path.error[-1] == pytest.approx(end.bias.error, rel=1e-3)


RATES = np.array([2.0, 0.5, 1.0, 0.5, 2.0, 0.25])
LIMITS = {
    "corrections": scaffold(rate=0.01, work=StepsPerClient(np.array([1, 2, 4, 1, 2, 6]), 1)),
    "memories of unequal steps": mifa(rate=0.01, work=StepsPerClient(np.array([1, 2, 4, 1, 2, 6]), 1)),
    "corrections of unequal rates": scaffold(rate=0.01, schedule=PerClient(RATES), work=Steps(2, 1)),
    "memories of unequal rates": mifa(rate=0.01, schedule=PerClient(RATES), work=Steps(2, 1)),
    "partly trusted memories of unequal rates": fedstale(rate=0.01, schedule=PerClient(RATES), work=Steps(2, 1)),
    "unequal rates": unbiased(rate=0.01, schedule=PerClient(RATES), work=Steps(2, 1), estimator=Oracle()),
    "weights with a cutoff": fedau(rate=0.01, cutoff=3, work=Steps(2, 1)),
    "partly trusted memories": fedstale(rate=0.01, trust=0.5, work=Steps(2, 1)),
    "rates that converge": debiased_fedavg(rate=0.01, work=Steps(2, 1)),
}


@pytest.mark.parametrize("case", LIMITS)
def test_simulations_converge_to_the_predicted_limit(case):
    """The mean of 48 runs, within five standard errors and a tenth of how far limits lie apart (O(η) and drift).

    A correct program fails for fewer than 1 in 10⁴ seeds each.
    """
    problem, process = random_quadratic(CLIENTS, 3, condition=4.0, noise=0.0, seed=1), Markov(PI, LAM)
    found = predict(Experiment(problem, process, {"m": LIMITS[case]}, {}), 5).methods["m"]
    fedavgs = predict(Experiment(problem, process, {"m": fedavg()}, {}), 5).methods["m"].bias.distance
    run = fedtide.simulate(problem, process, LIMITS[case], rounds=1500, seeds=48, evaluate_every=50)
    (models,) = run.models.values()
    away = np.linalg.norm(models.mean(0) - found.bias.optimum)
    assert away <= 5 * np.sqrt(models.var(0, ddof=1).sum() / 48) + 0.1 * fedavgs
    assert not found.diverges
    assert (found.path is not None) == (case in ("weights with a cutoff", "rates that converge"))


def test_every_method_has_a_limit_or_says_why_not():
    for name, entry in CATALOGUE.items():
        found = weighting(entry.build(), PEOPLE, SIZES)
        assert found.score is not None or "predicted" in found.note, name
        if found.score is not None and found.training is None:
            assert "path" in found.note or "only its limit" in found.note, name


def test_parts_that_theory_does_not_follow():
    pulled = Optimiser("adamw", 0.1)
    assert "adamw" in weighting(compose(fedavg(), server=pulled), PEOPLE, SIZES).note
    assert "projects" in weighting(compose(fedavg(), server=Projected(Optimiser(), 1.0)), PEOPLE, SIZES).note
    varying = weighting(fedavg(work=RandomSteps(1, 4, 8, fixed=True)), PEOPLE, SIZES)
    assert varying.score is None
    assert "seed" in varying.note


@part
class Twice(Everyone):
    def in_theory(self, importance, availability, inverse):
        return Weighting(2 * importance)


@part
class Silent(Policy):
    init, decide = Everyone.init, Everyone.decide


def test_a_new_part_declares_itself():
    np.testing.assert_array_equal(weighting(compose(fedavg(), participation=Twice()), PEOPLE, SIZES).score, 2 * ALPHA)
    silent = weighting(compose(fedavg(), participation=Silent()), PEOPLE, SIZES)
    assert silent.score is None
    assert "(Silent)" in silent.note


@part
class Mornings(Bernoulli):
    two_state = False  # not a chain, whatever its base class is


def test_a_process_declares_its_chains():
    pairs = Clusters(Markov(np.full(2, 0.4), np.full(2, 0.5)), np.array([0, 0, 1, 1]))
    problem = random_quadratic(4, 2)
    clients = predict(Experiment(problem, pairs, {}, {}), 2).clients
    assert clients.chains
    np.testing.assert_array_equal(clients.together, [0, 0, 1, 1])
    assert predict(Experiment(problem, Bernoulli(0.5, clients=4), {}, {}), 2).clients.observed is None
    counted = predict(Experiment(problem, Mornings(0.5, clients=4), {}, {}), 2).clients
    assert not counted.chains
    assert counted.observed is not None


@pytest.mark.parametrize("groups", [3, 4])
def test_counted_correlations_are_admissible(groups):
    """Groups that take turns have the lowest possible correlation: estimates must not be below it."""
    found = predict(Experiment(random_quadratic(12, 2), Cyclic(groups, clients=12), {"m": adafed()}, {}), 10)
    np.testing.assert_allclose(found.presence.absent_run, groups - 1, rtol=0.01)


def test_a_schedule_is_counted():
    found = predict(Experiment(random_quadratic(4, 2), Cyclic(2, clients=4), {"m": adafed()}, {}), 10)
    np.testing.assert_allclose(found.methods["m"].importance, 0.25, atol=1e-3)
    assert not found.clients.chains
    np.testing.assert_allclose(found.presence.absent_run, 1, rtol=0.01)
