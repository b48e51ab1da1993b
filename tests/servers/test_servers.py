"""Servers: optax by name, and models kept in a ball."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedtide.errors import InvalidInput
from fedtide.servers import Optimiser, Projected

OPTIMISERS = {
    "sgd": {},
    "adam": {"b1": 0.8},
    "adagrad": {},
    "yogi": {},
    "rmsprop": {},
    "adamw": {"weight_decay": 0.1},
    "lion": {},
    "amsgrad": {},
    "nadam": {},
    "adabelief": {},
}
W = jnp.array([1.0, -2.0, 3.0])
OPTIONS = "((name, value), …), arguments of"
DIRECTIONS = (jnp.array([0.5, 0.0, -1.0]), jnp.array([0.1, 0.2, 0.3]))


@pytest.mark.parametrize("name", OPTIMISERS)
def test_a_named_server_is_the_optax_optimiser_of_that_name(name):
    options = OPTIMISERS[name]
    server, reference = Optimiser(name, 0.1, tuple(options.items())), getattr(optax, name)(0.1, **options)
    w, state, expected, reference_state = W, server.init(W), W, reference.init(W)
    for direction in DIRECTIONS:
        w, state = server.step(state, w, direction)
        change, reference_state = reference.update(direction, reference_state, expected)
        expected = optax.apply_updates(expected, change)
    np.testing.assert_array_equal(w, expected)
    assert not np.array_equal(w, W)


def test_the_default_server_adds_the_mean_update():
    w, _ = Optimiser().step(Optimiser().init(W), W, jnp.array([1.0, 1.0, 1.0]))
    assert w.tolist() == [0.0, -3.0, 2.0]


def test_server_momentum_by_hand():
    server = Optimiser("sgd", 0.5, (("momentum", 0.5),))
    w, state = jnp.zeros(1), server.init(jnp.zeros(1))
    for expected in (-1.0, -2.5):  # m = 2, then 1 + 2 = 3
        w, state = server.step(state, w, jnp.array([2.0]))
        assert w.tolist() == [expected]


def test_rates_are_a_batch_axis():
    servers = jax.tree.map(lambda *rates: jnp.stack(rates), Optimiser("adam", 0.1), Optimiser("adam", 0.2))
    both = jax.vmap(lambda server: server.step(server.init(W), W, DIRECTIONS[0])[0])(servers)
    for w, rate in zip(both, (0.1, 0.2), strict=True):
        server = Optimiser("adam", rate)
        np.testing.assert_allclose(w, server.step(server.init(W), W, DIRECTIONS[0])[0], rtol=1e-6)


def test_a_ball_holds_the_model():
    server = Projected(Optimiser(), radius=5.0)
    state = server.init(jnp.zeros(2))
    inside, _ = server.step(state, jnp.array([3.0, 3.0]), jnp.array([0.0, 1.0]))
    assert inside.tolist() == [3.0, 2.0]
    outside, _ = server.step(state, jnp.array([3.0, 3.0]), jnp.array([-3.0, -5.0]))
    np.testing.assert_allclose(outside, [3.0, 4.0], rtol=1e-6)  # (6, 8) has norm 10
    origin, _ = server.step(state, jnp.array([3.0, 3.0]), jnp.array([3.0, 3.0]))
    assert origin.tolist() == [0.0, 0.0]


def test_a_ball_keeps_the_state_of_the_server_inside():
    inner = Optimiser("sgd", 1.0, (("momentum", 0.5),))
    server = Projected(inner, radius=1.0)
    _, state = server.step(server.init(W), W, DIRECTIONS[0])
    _, expected = inner.step(inner.init(W), W, DIRECTIONS[0])
    jax.tree.map(np.testing.assert_array_equal, state, expected)


@pytest.mark.parametrize(
    ("build", "line"),
    [
        (lambda: Optimiser("chain"), "server.algorithm = 'chain': must be one of adabelief, adagrad, adam, adamw, "),
        (lambda: Optimiser(rate=-1.0), "server.rate = -1.0: must be 0 or more"),
        (lambda: Optimiser("adam", 1.0, (("b3", 1),)), f"server.options = (('b3', 1),): must be {OPTIONS} optax.adam"),
        (lambda: Optimiser("sgd", 1.0, (("b1",),)), f"server.options = (('b1',),): must be {OPTIONS} optax.sgd"),
        (lambda: Projected(Optimiser(), 0.0), "server.radius = 0.0: must be positive"),
        (lambda: Projected(Optimiser(), float("nan")), "server.radius = nan: must be a finite number, positive"),
    ],
)
def test_errors_name_field_value_and_what_is_allowed(build, line):
    with pytest.raises(InvalidInput) as caught:
        build()
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_a_misspelt_name_says_what_was_meant():
    with pytest.raises(InvalidInput, match="did you mean 'adam'"):
        Optimiser("adamm")
