"""Solvers on one number, worked out by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from fedtide.errors import InvalidInput
from fedtide.solvers import Momentum, Proximal, Sgd
from fedtide.types import Population, Task

# F(w) = (w − 1)²: from w = 0 the gradient is −2 and the loss 1.
TASK = Task(2, lambda w, step: (((w - 1) ** 2).sum(), 2 * (w - 1)))


@pytest.mark.parametrize(
    ("solver", "end", "loss"),
    [
        (Sgd(0.25), 0.75, (1 + 0.25) / 2),  # 0 → ½ → ¾
        (Proximal(0.25, mu=2.0), 0.5, (1 + 0.25) / 2),  # the second step: −1 + 2·½ = 0
        (Momentum(0.25, decay=0.5), 1.0, (1 + 0.25) / 2),  # m = −2, then −1 − 1
        (Sgd(0.0), 0.0, 1.0),
    ],
)
def test_two_steps(solver, end, loss):
    trained = solver.train(jnp.zeros(1), TASK, (), ())
    assert trained.w.tolist() == [end]
    assert float(trained.loss) == loss
    assert (trained.steps, trained.row, trained.message) == (2, (), ())


def test_persistent_momentum_goes_on_where_it_was():
    solver = Momentum(0.25, decay=0.5, persistent=True)
    memory = solver.init(Population(np.ones(3) / 3, np.ones(3)), jnp.zeros(1))
    assert memory.client.shape == (3, 1)
    first = solver.train(jnp.zeros(1), TASK, memory.client[0], ())
    assert (first.w.tolist(), first.row.tolist()) == ([1.0], [-2.0])
    # The gradient at 1 is 0; the buffer carries on: m = −1, w = 1.25; then m = −½ + ½ = 0.
    second = solver.train(first.w, TASK, first.row, ())
    assert (second.w.tolist(), second.row.tolist()) == ([1.25], [0.0])


def test_forgetful_solvers_remember_nothing():
    population = Population(np.ones(3) / 3, np.ones(3))
    for solver in (Sgd(), Proximal(), Momentum()):
        assert tuple(solver.init(population, jnp.zeros(4))) == ((), ())


@pytest.mark.parametrize(
    ("build", "field"),
    [
        (lambda: Sgd(-0.1), "rate"),
        (lambda: Sgd(float("nan")), "rate"),
        (lambda: Proximal(mu=-1.0), "mu"),
        (lambda: Momentum(decay=1.0), "decay"),
        (lambda: Momentum(rate=-1.0), "rate"),
    ],
)
def test_errors_name_the_bad_field(build, field):
    with pytest.raises(InvalidInput, match=rf"^solver\.{field} = "):
        build()
