"""Train functions and gradients of users give what the method's own solver gives."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from fedtide import methods
from fedtide.adapters.coordinator import Coordinator, shapes
from fedtide.adapters.rounds import Round
from fedtide.adapters.training import Answer, Functions, Gradients
from fedtide.errors import FedtideError
from fedtide.schedules import Geometric, PerClient
from fedtide.solvers import AdaptiveSteps, ControlVariate, Proximal, TailRisk
from fedtide.types import Population
from fedtide.work import Steps

WORK = Steps(count=4, batch=3)
SHAPES = [(2, 2), (3,)]
DATA = np.random.default_rng(1).normal(size=(20, 7)).astype(np.float32)
METHODS = {
    "fedavg": methods.fedavg(work=WORK),
    "fedprox": methods.fedprox(mu=0.3, work=WORK),
    "scaffold": methods.scaffold(work=WORK),
    "fed_cvar_avg": methods.fed_cvar_avg(work=WORK, level=0.5),
    "scaffold, rates by client": methods.scaffold(work=WORK, schedule=PerClient([1.0, 0.5, 2.0], Geometric(0.9))),
    "fed_cvar_avg, rates by client": methods.fed_cvar_avg(work=WORK, schedule=PerClient([1.0, 0.5, 2.0])),
    "nested": replace(methods.fedavg(), solver=AdaptiveSteps(ControlVariate(Proximal(mu=0.3, decay=0.5, work=WORK)))),
    "nested_tail": replace(methods.fedavg(), solver=AdaptiveSteps(TailRisk(level=0.5, work=WORK))),
}


def gradient(arrays, samples, round):
    """½‖w − x‖², mean over the samples."""
    w = round.joined(arrays)
    away = w - DATA[samples]
    return 0.5 * float((away**2).sum(1).mean()), round.split(away.mean(0))


def train(arrays, round):
    """The same by hand, with the helpers of the round."""
    w, m, losses = round.joined(arrays), 0.0, []
    brought = Gradients(gradient, None, None, len(DATA))
    for step in range(round.steps):
        samples = brought._minibatch(round, 1, len(DATA), step)
        loss, found = gradient(round.split(w), samples, round)
        g = round.joined(found) * np.float32(round.factor(loss)) + round.joined(round.correction)
        m = np.float32(round.decay) * m + g
        w = w - np.float32(round.rate(step)) * (m + round.joined(round.pull(round.split(w))))
        losses.append(loss)
    return Answer(round.split(w), len(DATA), len(losses), float(np.mean(losses)))


def opened(method, t=2):
    population = Population(np.full(3, 1 / 3, np.float32), np.full(3, 20, np.int32))
    w = np.random.default_rng(0).normal(size=7).astype(np.float32)
    coordinator = Coordinator(method, population, w)
    exchanged = shapes(method, population, 7)
    rng = np.random.default_rng(4)
    draw = lambda leaf: rng.normal(size=leaf.shape).astype(leaf.dtype)  # noqa: E731
    row, shared = (jax.tree.map(draw, tree) for tree in (exchanged.row, exchanged.shared))
    if hasattr(shared, "steps"):
        shared = shared._replace(steps=np.int32(3))
    round = Round(coordinator.method, t, "b", 1, SHAPES, {}, {}, 5).opened(w, row, shared)
    return round, w, row, shared


@pytest.mark.parametrize("name", METHODS)
def test_a_train_function_with_the_helpers_is_the_solver(name):
    round, w, row, shared = opened(METHODS[name])
    by_hand = Functions(train, None, len(DATA)).train(w, round, row, shared)
    round, w, row, shared = opened(METHODS[name])
    by_solver = Gradients(gradient, None, None, len(DATA)).train(w, round, row, shared)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), by_hand, by_solver)
    assert np.abs(by_solver.w - w).max() > 1e-2


def plain(arrays, round):
    return Answer(arrays, len(DATA), 1, 0.0)


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (methods.fedprox(work=WORK), "needs round.pull"),
        (methods.scaffold(work=WORK), "needs round.correction and round.rate"),
        (methods.fed_cvar_avg(work=WORK), "needs round.factor"),
        (methods.fednova(work=WORK), "needs round.rate"),
        (methods.fedavg(work=WORK, schedule=PerClient([1.0, 0.5, 2.0])), "needs round.rate"),
        (methods.focus(work=WORK), "GradientTracking takes steps that a train function cannot"),
        (replace(methods.scaffold(), solver=ControlVariate(TailRisk(work=WORK))), "ControlVariate takes steps"),
        (methods.amplified_scaffold(work=WORK), "PeriodicControlVariate takes steps"),
    ],
)
def test_a_method_refuses_a_train_function_that_ignores_its_parts(method, said):
    round, w, row, shared = opened(method)
    with pytest.raises(FedtideError, match=said):
        Functions(plain, None, len(DATA)).train(w, round, row, shared)


def test_what_a_train_function_returns_is_checked():
    wrong = {
        "arrays, examples, steps, loss": lambda arrays, round: (arrays, 1, 1),
        "shapes of arrays": lambda arrays, round: Answer(arrays[:1], len(DATA), 1, 0.0),
        "must be floating": lambda arrays, round: Answer([a.astype(int) for a in arrays], len(DATA), 1, 0.0),
        "must be 20, as reported at enrolment": lambda arrays, round: Answer(arrays, 5, 1, 0.0),
    }
    for said, function in wrong.items():
        round, w, row, shared = opened(METHODS["fedavg"])
        with pytest.raises(FedtideError, match=said):
            Functions(function, None, len(DATA)).train(w, round, row, shared)


def test_losses_are_of_the_query_minibatch_or_of_all():
    brought = Gradients(gradient, lambda arrays, samples, round: len(samples), None, len(DATA))
    round, w, _, _ = opened(methods.ca_fed(work=WORK))
    assert brought.loss(w, round) == WORK.batch
    assert Functions(train, lambda arrays, round: {"loss": 3}, 20).loss(w, round) == 3
    with pytest.raises(FedtideError, match="give evaluate="):
        Functions(train, None, 20).loss(w, round)
