"""Where methods end if learning rates differ by client: in closed form, and equal rates change no bit."""

import numpy as np
import pytest

import fedtide
from fedtide import methods as m
from fedtide.availability import Always, Bernoulli
from fedtide.errors import FedtideError
from fedtide.problems.quadratic import random_quadratic
from fedtide.schedules import Constant, PerClient, PowerDecay
from fedtide.work import Epochs, Steps, StepsPerClient

FACTORS = np.array([0.25, 0.5, 1.0, 2.0])
COUNTS = np.array([4, 1, 2, 1])


@pytest.fixture(scope="module")
def problem():
    return random_quadratic(clients=4, dimension=3, seed=1)


def last(problem, process, rounds=900, **methods):
    """The last models by name, in double precision."""
    found = fedtide.simulate(problem, process, methods, rounds=rounds, evaluate_every=rounds, record_clients=False)
    return {name: models[0] for name, models in found.models.items()}


def rest(problem, rates, steps, divisor):
    """The w with Σ (I − (I − η_k H_k)^τ_k) (w − c_k) / divisor_k = 0: full gradients move client k by that product."""
    clients = zip(problem.hessians, rates, steps, strict=True)
    pull = np.array([np.eye(3) - np.linalg.matrix_power(np.eye(3) - rate * h, n) for h, rate, n in clients])
    pull /= divisor[:, None, None]
    return np.linalg.solve(pull.sum(axis=0), np.einsum("kij,kj->i", pull, problem.centres))


def test_with_one_step_it_is_the_optimum_of_importance_times_rate(problem, float64):
    """Exactly, at any rate; where clients are remembered, whoever is available."""
    one = {"rate": 0.1, "work": Steps(1, batch=1), "schedule": PerClient(FACTORS)}
    biased = problem.optimum(FACTORS / FACTORS.sum())
    assert np.linalg.norm(biased - problem.optimum()) > 0.1
    found = last(problem, Always(4), fedavg=m.fedavg(**one), fednova=m.fednova(**one), fedvarp=m.fedvarp(**one))
    np.testing.assert_allclose(found["fedavg"], biased, atol=1e-10)
    np.testing.assert_allclose(found["fedvarp"], biased, atol=1e-10)
    np.testing.assert_allclose(found["fednova"], problem.optimum(), atol=1e-10)
    process = Bernoulli([0.9, 0.3, 0.6, 0.4])
    one |= {"rate": 0.02}
    found = last(problem, process, 5000, mifa=m.mifa(**one), scaffold=m.scaffold(**one), focus=m.focus(**one))
    np.testing.assert_allclose(found["mifa"], biased, atol=1e-9)
    np.testing.assert_allclose(found["focus"], biased, atol=1e-9)
    np.testing.assert_allclose(found["scaffold"], problem.optimum(), atol=1e-9)


def test_with_several_steps_it_is_the_closed_form_which_tends_to_that_optimum(problem, float64):
    rates = 0.1 * FACTORS
    several = {"rate": 0.1, "work": StepsPerClient(COUNTS, batch=1), "schedule": PerClient(FACTORS)}
    found = last(problem, Always(4), fedavg=m.fedavg(**several), fednova=m.fednova(**several))
    np.testing.assert_allclose(found["fedavg"], rest(problem, rates, COUNTS, np.ones(4)), atol=1e-10)
    np.testing.assert_allclose(found["fednova"], rest(problem, rates, COUNTS, rates * COUNTS), atol=1e-10)
    small, effort = 1e-6 * FACTORS, FACTORS * COUNTS
    np.testing.assert_allclose(
        rest(problem, small, COUNTS, np.ones(4)), problem.optimum(effort / effort.sum()), atol=1e-5
    )
    np.testing.assert_allclose(rest(problem, small, COUNTS, small * COUNTS), problem.optimum(), atol=1e-5)


def test_factors_that_are_one_over_the_steps_compensate_for_them(problem, float64):
    found = last(
        problem, Always(4), 4000, plain=m.fedavg(0.01, work=StepsPerClient(COUNTS, 1)),
        compensated=m.fedavg(0.01, work=StepsPerClient(COUNTS, 1), schedule=PerClient(1 / COUNTS)),
    )  # fmt: skip
    gaps = {name: np.linalg.norm(w - problem.optimum()) for name, w in found.items()}
    assert gaps["compensated"] < 0.05 * gaps["plain"]


def test_a_decreasing_rate_keeps_the_factors(problem, float64):
    """a_n⁽ᵏ⁾ = c_k η / n^δ, the outlook of the paper: the limit itself, without drift."""
    falling = PerClient(FACTORS, PowerDecay(0.8, "rounds"))
    method = m.fedavg(0.3, weights="equal", work=Steps(5, batch=1), schedule=falling)
    found = last(problem, Always(4), 20_000, sa=method)["sa"]
    np.testing.assert_allclose(found, problem.optimum(FACTORS / FACTORS.sum()), atol=2e-3)


@pytest.mark.parametrize(("build", "work"), [(m.fedavg, Steps(3, batch=4)), (m.fedvarp, Epochs(1, batch=8))])
def test_factors_of_one_change_no_bit(as_shipped, blobs, chains, build, work):
    methods = {"without": build(work=work), "ones": build(work=work, schedule=PerClient(np.ones(12)))}
    found = fedtide.simulate(blobs, chains, methods, rounds=6, seeds=2, evaluate_every=6)
    np.testing.assert_array_equal(found.models["without"], found.models["ones"])


def test_every_client_has_its_factor_whatever_the_chunk(blobs, chains):
    """Only client 8 moves the model visibly."""
    factors = np.full(12, 1e-6)
    factors[8] = 1.0
    method = m.unbiased(work=Epochs(1, batch=8), schedule=PerClient(factors))
    runs = [fedtide.simulate(blobs, chains, method, rounds=8, evaluate_every=1, chunk=chunk) for chunk in (None, 1)]
    np.testing.assert_allclose(*(next(iter(run.models.values())) for run in runs), rtol=1e-5, atol=1e-7)
    took_part = runs[0].clients.filter(client=8).sort("round")["invited"].to_numpy()
    steps = runs[0].rounds.filter(runs[0].rounds["round"] > 0).sort("round")["step"].to_numpy()
    assert 0 < took_part.sum() < 8
    assert steps[took_part].min() > 100 * steps[~took_part].max()


def test_factors_are_a_batch_axis_of_a_sweep(blobs, chains):
    settings = [m.fedavg(schedule=PerClient(np.full(12, factor))) for factor in (1.0, 0.5)]
    plain = [m.fedavg(rate) for rate in (0.1, 0.05)]
    options = {"rounds": 4, "evaluate_every": 4}
    found, expected = (fedtide.sweep(blobs, chains, methods, **options).objective for methods in (settings, plain))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_there_is_one_factor_for_each_client(blobs, chains):
    for inside in (Constant(), PowerDecay()):
        method = m.fedavg(schedule=PerClient(np.ones(11), inside))
        with pytest.raises(FedtideError, match=r"schedule\.factors = '11 entries': must be one for each of 12 clients"):
            fedtide.simulate(blobs, chains, method, rounds=1)
