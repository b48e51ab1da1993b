"""Servers that look at more than the last step: amplified periods, the mean of two models."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtide.errors import InvalidInput
from fedtide.servers import Amplified, AverageOfLastTwo, Optimiser, Projected

ONE = jnp.array([1.0])


def run(server, rounds, moving=lambda t: True):
    """Models and served models of rounds whose direction is −1, and which only some take."""
    w, state, models, served = jnp.zeros(1), server.init(jnp.zeros(1)), [], []
    for t in range(rounds):
        if moving(t):
            w, state = server.step(state, w, -ONE)
        w, state = server.end_round(state, w, jnp.int32(t))
        models.append(float(w[0]))
        served.append(float(server.serve(state, w)[0]))
    return models, served


def test_a_period_counts_more():
    assert run(Amplified(period=3, factor=2.0), 6)[0] == [1, 2, 6, 7, 8, 12]


def test_empty_rounds_belong_to_their_period():
    assert run(Amplified(period=2, factor=3.0), 6, lambda t: t in (0, 4))[0] == [1, 3, 3, 3, 4, 6]


def test_a_factor_of_one_is_the_server_inside():
    assert run(Amplified(period=2, factor=1.0), 4) == run(Optimiser(), 4)


def test_the_mean_of_the_last_two_is_served_and_not_trained():
    models, served = run(AverageOfLastTwo(), 4, lambda t: t != 2)
    assert models == [1, 2, 2, 3]
    assert served == [0.5, 1.5, 1.5, 2.5]
    assert AverageOfLastTwo().serve(AverageOfLastTwo().init(ONE), ONE).tolist() == [1.0]


def test_they_nest():
    amplified = Amplified(period=2, factor=2.0)
    assert run(AverageOfLastTwo(amplified), 4)[0] == run(amplified, 4)[0] == [1, 4, 5, 8]
    np.testing.assert_allclose(run(Projected(amplified, radius=3.0), 4)[0], [1, 3, 3, 3])


def test_the_mean_is_that_of_what_the_server_inside_hands_out():
    models, served = run(AverageOfLastTwo(AverageOfLastTwo()), 4, lambda t: t != 2)
    assert models == [1, 2, 2, 3]
    assert served == [0.25, 1.0, 1.0, 2.0]  # means of two neighbours among 0, 0.5, 1.5, 2.5


@pytest.mark.parametrize("wrap", [lambda server: server, AverageOfLastTwo, Amplified])
def test_a_long_step_does_not_go_around_a_ball(wrap):
    with pytest.raises(
        InvalidInput, match=r"^server\.server = 'Projected': .*use Projected\(Amplified\(…\)\) instead$"
    ):
        Amplified(wrap(Projected(Optimiser(), 1.0)))


def test_a_ball_does_not_touch_a_model_that_does_not_move():
    """Even one outside of it."""
    server = Projected(Optimiser(), radius=1.0)
    w, _ = server.end_round(server.init(5 * ONE), 5 * ONE, jnp.int32(0))
    assert w.tolist() == [5.0]


def test_numbers_among_the_options_can_be_swept_and_flags_are_structure():
    settings = [Optimiser("sgd", 0.1, {"momentum": rho, "nesterov": True}) for rho in (0.5, 0.9)]
    leaves = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(settings[0])]
    assert leaves == [".rate", ".options['momentum']"]
    both = jax.vmap(lambda server: server.step(server.init(ONE), ONE, ONE)[0])(
        jax.tree.map(lambda *a: jnp.stack(a), *settings)
    )
    alone = [server.step(server.init(ONE), ONE, ONE)[0] for server in settings]
    np.testing.assert_allclose(both, alone)
    assert jax.tree.structure(settings[0]) != jax.tree.structure(Optimiser("sgd", 0.1, {"momentum": 0.5}))


@pytest.mark.parametrize(
    ("build", "field"), [(lambda: Amplified(period=0), "period"), (lambda: Amplified(factor=-1.0), "factor")]
)
def test_errors_name_the_bad_field(build, field):
    with pytest.raises(InvalidInput, match=rf"^server\.{field} = "):
        build()
