import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtide.availability import Diurnal
from fedtide.errors import InvalidInput
from fedtide.streams import Purpose, Stream

SEEDS = 20_000


@pytest.fixture(scope="module")
def days() -> Diurnal:
    """Plain, persistent in another zone, clipped above, off at night."""
    return Diurnal(
        base=[0.5, 0.3, 0.9, 0.2], amplitude=[0.8, 0.9, 1.0, 3.0], zone=[0.0, 0.3, 0.0, -0.25],
        persistence=[0.0, 0.9, 0.6, 0.95], period=12,
    )  # fmt: skip


@pytest.fixture(scope="module")
def traces(days: Diurnal) -> np.ndarray:
    """bool[SEEDS, 13, 4]"""

    @jax.jit
    @jax.vmap
    def one(seed):
        state = days.init(Stream(seed, Purpose.AVAILABILITY, 0))

        def step(state, t):
            available, state = days.step(state, Stream(seed, Purpose.AVAILABILITY, t))
            return state, available

        return jax.lax.scan(step, state, jnp.arange(13))[1]

    return np.asarray(one(jnp.arange(SEEDS, dtype=jnp.uint32)))


def marginals(days: Diurnal, rounds: int) -> np.ndarray:
    return np.asarray(jax.jit(jax.vmap(days.marginal))(jnp.arange(rounds)), float)


def test_marginal_is_the_formula(days: Diurnal):
    base, amplitude, zone = (np.asarray(v) for v in (days.base, days.amplitude, days.zone))
    for t in range(25):
        wave = base * (1 + amplitude * np.sin(2 * np.pi * (t / 12 + zone)))
        np.testing.assert_allclose(days.marginal(t), np.clip(wave, 0, 1), atol=1e-6)


def test_the_day_is_exact_however_late(days: Diurnal):
    np.testing.assert_array_equal(days.marginal(7), days.marginal(7 + 12 * 10**7))


def test_a_zone_is_a_shift_of_time():
    east, here = Diurnal(0.4, zone=0.25, period=24, clients=1), Diurnal(0.4, period=24, clients=1)
    np.testing.assert_allclose(marginals(east, 24), marginals(here, 30)[6:], atol=1e-6)


def test_the_marginal_is_exact_in_every_round(days: Diurnal, traces: np.ndarray):
    # 20,000 independent seeds; 5.5 standard errors are exceeded with probability 4e-8 for each of 52 shares.
    expected = marginals(days, 13)
    error = np.sqrt(expected * (1 - expected) / SEEDS)
    np.testing.assert_array_less(np.abs(traces.mean(0) - expected), 5.5 * error + 1e-6)


@pytest.mark.parametrize("lag", [1, 3, 6])
def test_covariance_over_time(days: Diurnal, traces: np.ndarray, lag: int):
    now, after = marginals(days, 13)[:-lag], marginals(days, 13)[lag:]
    kept = np.asarray(days.persistence) ** lag
    expected = now * after + kept * (np.minimum(now, after) - now * after)
    error = np.sqrt(expected * (1 - expected) / SEEDS)  # as above
    both = (traces[:, :-lag] & traces[:, lag:]).mean(0)
    np.testing.assert_array_less(np.abs(both - expected), 5.5 * error + 1e-6)


def test_uniform_numbers_stay_uniform_and_give_the_marginal_exactly():
    # Evenly spread numbers: the share below π(t) is π(t) up to one client, and a step keeps the share ρ of them.
    clients = 4096
    days = Diurnal(0.3, 0.9, persistence=0.8, period=12, clients=clients)
    spread = (np.arange(clients, dtype=np.float32) + 0.5) / clients
    step = jax.jit(lambda t: days.step(jnp.asarray(spread), Stream(0, Purpose.AVAILABILITY, t)))
    for t, expected in enumerate(marginals(days, 12)[:, 0]):
        available, after = map(np.asarray, step(t))
        assert abs(available.mean() - expected) <= 1 / clients
        # 5.5 standard errors of a share: 4e-8.
        assert abs((after == spread).mean() - 0.8) < 5.5 * (0.8 * 0.2 / clients) ** 0.5


def test_a_day_without_waves_is_the_two_state_chain():
    flat = Diurnal([0.3, 0.9], amplitude=0.0, persistence=[0.7, 0.0])
    np.testing.assert_allclose(flat.availability, [0.3, 0.9], atol=1e-6)
    np.testing.assert_allclose(flat.correlation, [0.7, 0.0], atol=1e-6)


def test_unclipped_average_is_the_base():
    np.testing.assert_allclose(Diurnal([0.2, 0.5], zone=0.1).availability, [0.2, 0.5], atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"base": [1.2]}, r"base\[0\] = 1.2"),
        ({"base": 0.5}, "base = 0.5: must be a number and `clients`"),
        ({"base": [0.5], "amplitude": -1}, r"amplitude\[0\] = -1.0"),
        ({"base": [0.5, 0.5], "zone": [0.1]}, "zone = '1 entries'"),
        ({"base": [0.5], "persistence": 1.0}, r"persistence\[0\] = 1.0: must be in \[0, 1\)"),
        ({"base": [0.5], "period": 1}, "period = 1"),
    ],
)
def test_bad_days(arguments, message: str):
    with pytest.raises(InvalidInput, match=message):
        Diurnal(**arguments)
