"""Laws of every availability process in the catalogue, on its example."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtide import availability
from fedtide.availability import CATALOGUE, Process
from fedtide.streams import Purpose, Stream

SEEDS = 400
ROUNDS = 240  # whole cycles of every example that has one: 24-round days, turns of 3 × 2 rounds, a 4-round trace
Z = 5.7  # seeds are independent, so their spread accounts for autocorrelation; a client fails by chance at 2e-8
DETERMINISTIC = {"always", "cyclic"}
FOLLOWS_A_CLOCK = {"cyclic", "diurnal", "fleet", "phones"}

every = pytest.mark.parametrize("name", CATALOGUE)


@functools.cache
def example(name: str) -> Process:
    return CATALOGUE[name].build(**CATALOGUE[name].example)


def play(process: Process, seed, state, start, rounds: int):
    """(bool[rounds, N], state after) through `step` alone."""

    def one(state, t):
        available, state = process.step(state, Stream(seed, Purpose.AVAILABILITY, t))
        return state, available

    state, available = jax.lax.scan(one, state, start + jnp.arange(rounds))
    return available, state


@functools.cache
def traces(name: str) -> np.ndarray:
    """bool[SEEDS, ROUNDS + 1, N], all seeds at once."""
    process = example(name)

    @jax.jit
    @jax.vmap
    def all_seeds(seed):
        state = process.init(Stream(seed, Purpose.AVAILABILITY, 0))
        return play(process, seed, state, 0, ROUNDS + 1)[0]

    return np.asarray(all_seeds(jnp.arange(SEEDS, dtype=jnp.uint32)))


def assert_mean(samples: np.ndarray, expected: np.ndarray) -> None:
    """The mean over seeds [SEEDS, N] is the expected one, within a band of Z standard errors."""
    error = samples.std(0, ddof=1) / len(samples) ** 0.5
    np.testing.assert_array_less(np.abs(samples.mean(0) - expected), Z * error + 1e-6)


@every
def test_a_trace_is_a_boolean_matrix(name: str):
    process = example(name)
    trace = process.sample(seed=3, rounds=ROUNDS + 1)
    assert trace.shape == (ROUNDS + 1, process.clients)
    assert trace.dtype == bool


@every
def test_the_same_seed_gives_the_same_trace_another_seed_another(name: str):
    built_again = CATALOGUE[name].build(**CATALOGUE[name].example)
    trace = example(name).sample(5, ROUNDS + 1)
    np.testing.assert_array_equal(trace, built_again.sample(5, ROUNDS + 1))
    others = [example(name).sample(seed, ROUNDS + 1) for seed in range(6, 12)]
    assert all(np.array_equal(trace, other) for other in others) == (name in DETERMINISTIC)


@every
def test_a_prefix_does_not_depend_on_the_length(name: str):
    np.testing.assert_array_equal(example(name).sample(7, ROUNDS + 1)[:11], example(name).sample(7, 11))


@every
def test_all_seeds_at_once_equal_one_by_one(name: str):
    for seed in (0, 1, SEEDS - 1):
        np.testing.assert_array_equal(traces(name)[seed], example(name).sample(seed, ROUNDS + 1))


@every
def test_the_state_holds_all_that_a_continuation_needs(name: str):
    process = example(name)

    @jax.jit
    def interrupted(seed):
        state = process.init(Stream(seed, Purpose.AVAILABILITY, 0))
        first, state = play(process, seed, state, 0, 30)
        second, _ = play(process, seed, state, 30, 30)
        return jnp.concatenate([first, second])

    np.testing.assert_array_equal(interrupted(jnp.uint32(2)), process.sample(2, ROUNDS + 1)[:60])


@every
def test_the_share_of_rounds_is_the_declared_availability(name: str):
    pi = example(name).availability
    assert pi.shape == (example(name).clients,)
    assert ((pi >= 0) & (pi <= 1)).all()
    assert_mean(traces(name)[:, :ROUNDS].mean(1), pi)


@every
def test_consecutive_rounds_have_the_declared_correlation(name: str):
    process = example(name)
    if process.correlation is None:
        assert name == "cyclic"
        return
    pi, lam = process.availability, process.correlation
    assert lam.shape == (process.clients,)
    # P(on and on again) = π² + λπ(1−π): linear in the trace, so its mean has no bias, as a ratio would have.
    here = traces(name)
    assert_mean((here[:, :-1] & here[:, 1:]).mean(1), pi**2 + lam * pi * (1 - pi))


@pytest.mark.parametrize("name", [name for name in CATALOGUE if name not in FOLLOWS_A_CLOCK])
def test_stationary_from_the_first_round(name: str):
    process, here = example(name), traces(name)
    pi, lam = process.availability, process.correlation
    for found, expected in (
        (here[:, 0], pi),
        (here[:, 1], pi),
        (here[:, 0] & here[:, 1], pi**2 + lam * pi * (1 - pi)),
    ):
        # A share among independent seeds: binomial, and a band of Z standard errors.
        error = np.sqrt(expected * (1 - expected) / SEEDS)
        np.testing.assert_array_less(np.abs(found.mean(0) - expected), Z * error + 1e-6)


@every
def test_every_client_has_a_class(name: str):
    classes = example(name).classes()
    assert len(classes) == example(name).clients
    assert all(isinstance(label, str) and label for label in classes)


@pytest.mark.parametrize(
    ("name", "argument"),
    [("clusters", "membership"), ("finite_chain", "active_sets"), ("cyclic", "groups"), ("trace", "matrix")],
)
def test_renumbering_the_clients_renumbers_the_trace(name: str, argument: str):
    entry, process = CATALOGUE[name], example(name)
    order = np.random.default_rng(0).permutation(process.clients)
    renumbered = entry.build(**{**entry.example, argument: np.asarray(getattr(process, argument))[..., order]})
    np.testing.assert_array_equal(renumbered.sample(1, ROUNDS + 1), process.sample(1, ROUNDS + 1)[:, order])
    np.testing.assert_array_equal(renumbered.availability, process.availability[order])


@pytest.mark.parametrize("name", ["bernoulli", "markov", "diurnal"])
def test_a_client_does_not_depend_on_the_others(name: str):
    entry = CATALOGUE[name]
    first = {k: v[:2] if isinstance(v, list) else v for k, v in entry.example.items()}
    alone = entry.build(**first).sample(1, ROUNDS + 1)
    np.testing.assert_array_equal(alone, example(name).sample(1, ROUNDS + 1)[:, :2])


def test_every_process_is_in_the_catalogue():
    public = [getattr(availability, name) for name in availability.__all__]
    classes = {c for c in public if isinstance(c, type) and issubclass(c, Process) and c is not Process}
    assert classes <= {type(example(name)) for name in CATALOGUE}
