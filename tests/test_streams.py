import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedtide.streams import Purpose, Stream, below, pcg4d, permuted

WORD = 2**32
compiles = settings(deadline=None)  # the first example pays for the compilation
RARE = 1e-7  # the chance of a false alarm of each statistical test below; seeds are fixed, so an alarm would stay


def mixed(x: int, y: int, z: int, w: int) -> tuple[int, int, int, int]:
    """pcg4d with one more xor-shift, written out with Python's integers."""
    x, y, z, w = ((v * 1664525 + 1013904223) % WORD for v in (x, y, z, w))
    x = (x + y * w) % WORD
    y = (y + z * x) % WORD
    z = (z + x * y) % WORD
    w = (w + y * z) % WORD
    x, y, z, w = (v ^ (v >> 16) for v in (x, y, z, w))
    x = (x + y * w) % WORD
    y = (y + z * x) % WORD
    z = (z + x * y) % WORD
    w = (w + y * z) % WORD
    x, y, z, w = (v ^ (v >> 16) for v in (x, y, z, w))
    return x, y, z, w


@compiles
@given(*(st.integers(0, WORD - 1) for _ in range(4)))
def test_the_hash_is_pcg4d(x: int, y: int, z: int, w: int):
    found = jitted_hash(*(jnp.uint32(v) for v in (x, y, z, w)))
    assert tuple(int(v) for v in found) == mixed(x, y, z, w)


jitted_hash = jax.jit(pcg4d)


def test_an_address_is_seed_round_purpose_client_and_counter():
    found = Stream(7, Purpose.QUERY, 11).bits(jnp.array([5, 6]), 6, start=8)
    for row, client in enumerate((5, 6)):
        words = mixed(7, 11 * 8 + 2, client, 2) + mixed(7, 11 * 8 + 2, client, 3)
        assert found[row].tolist() == list(words[:6])


def test_golden_values():
    # What a seed gives may never change: results that were published with it could not be repeated.
    assert Stream(0, Purpose.AVAILABILITY, 0).bits(0, 5).tolist() == [
        251852587,
        760654399,
        850458251,
        3542457295,
        2375971452,
    ]
    assert Stream(2**32 - 1, Purpose.MODEL, 1000).bits(999_999, 4).tolist() == [
        2601618622,
        4033770459,
        3279486499,
        3684489084,
    ]
    assert int(permuted(jnp.uint32(3), 10, jnp.uint32(1))) == 2


def test_numbers_do_not_depend_on_how_they_are_asked_for():
    @jax.jit
    def many_ways(clients):
        stream = Stream(jnp.uint32(3), Purpose.MINIBATCH, 5)
        pieces = [stream.uniform(clients, 4), stream.uniform(clients, 4, start=4)]
        return (
            stream.uniform(clients, 8),
            jnp.concatenate(pieces, axis=1),
            jax.vmap(lambda k: stream.uniform(k, 8))(clients),
            jnp.concatenate([stream.uniform(clients[:2], 8), stream.uniform(clients[2:], 8)]),
            stream.uniform(clients[::-1].reshape(2, 3), 8).reshape(6, 8)[::-1],
        ), stream.uniform(clients)

    ways, single = many_ways(jnp.arange(6))
    for way in ways:
        np.testing.assert_array_equal(way, ways[0])
    np.testing.assert_array_equal(single, ways[0][:, 0])


def test_uniform_is_in_the_unit_interval():
    numbers = np.asarray(Stream(0, Purpose.AVAILABILITY, 0).uniform(jnp.arange(1_000_000)))
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert numbers.dtype == np.float32


def test_no_two_addresses_share_their_words():
    addresses = np.array(list(itertools.product((0, 1, 2**32 - 1), Purpose, (0, 1, 2))), np.uint32)
    words = jax.vmap(lambda a: Stream(a[0], a[1], a[2]).bits(jnp.arange(8), 8))(addresses)
    blocks = np.asarray(words).reshape(-1, 4)
    assert len(np.unique(blocks, axis=0)) == len(blocks) == len(addresses) * 8 * 2


def along(axis: str, count: int = 2**16) -> np.ndarray:
    """Uniform numbers whose addresses differ in one coordinate only."""
    step = jnp.arange(count, dtype=jnp.uint32)
    if axis == "client":
        return np.asarray(Stream(1, Purpose.AVAILABILITY, 2).uniform(step))
    if axis == "counter":
        return np.asarray(Stream(1, Purpose.AVAILABILITY, 2).uniform(3, count))
    if axis == "round":
        return np.asarray(jax.vmap(lambda t: Stream(1, Purpose.AVAILABILITY, t).uniform(3))(step))
    return np.asarray(jax.vmap(lambda seed: Stream(seed, Purpose.AVAILABILITY, 2).uniform(3))(step))


def assert_even(counts: np.ndarray) -> None:
    assert stats.chisquare(counts).pvalue > RARE


def assert_independent(a: np.ndarray, b: np.ndarray) -> None:
    """All 16 × 16 pairs of sixteenths are equally frequent."""
    cell = (a * 16).astype(int) * 16 + (b * 16).astype(int)
    assert_even(np.bincount(cell.ravel(), minlength=256))


@pytest.mark.parametrize("axis", ["client", "counter", "round", "seed"])
def test_uniform_and_independent_along_each_coordinate(axis: str):
    numbers = along(axis)
    assert_even(np.bincount((numbers * 1024).astype(int), minlength=1024))
    for lag in (1, 2, 4, 8, 256):
        # Pairs of a number and the one `lag` after it, without overlap, so that pairs are independent.
        pairs = numbers[: len(numbers) // (2 * lag) * 2 * lag].reshape(-1, 2, lag)
        assert_independent(pairs[:, 0], pairs[:, 1])


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(Purpose, 2)))
def test_purposes_are_independent(first: Purpose, second: Purpose):
    clients = jnp.arange(2**15)
    for t in (0, 1):
        assert_independent(
            np.asarray(Stream(0, first, t).uniform(clients)), np.asarray(Stream(0, second, t).uniform(clients))
        )


def test_each_bit_that_is_used_is_even():
    # The low bits of pcg4d are poor, which is why numbers are made of the 24 high ones.
    words = np.asarray(Stream(5, Purpose.MINIBATCH, 0).bits(jnp.arange(2**14), 4)).ravel()
    ones = np.array([((words >> bit) & 1).sum() for bit in range(8, 32)], int)
    # Each is binomial(65,536, ½) with standard deviation 128: 5.5 of them are exceeded with probability 4e-8.
    assert (np.abs(ones - 2**15) < 5.5 * 128).all()


def test_a_key_differs_from_seed_to_seed():
    keys = [jax.random.key_data(Stream(seed, Purpose.MODEL).key()).tolist() for seed in range(20)]
    assert len({tuple(key) for key in keys}) == 20
    jax.random.normal(Stream(0, Purpose.MODEL).key(), (2,))


@compiles
@given(st.integers(1, 2**20), st.lists(st.integers(0, WORD - 1), min_size=3, max_size=3))
def test_below_is_in_range(size: int, words: list[int]):
    found = np.asarray(jitted_below(jnp.array([0, WORD - 1, *words], jnp.uint32), size))
    assert found.min() >= 0
    assert found.max() < size
    assert found[0] == 0
    assert found[1] == size - 1


jitted_below = jax.jit(below)


def test_below_is_even():
    words = Stream(0, Purpose.MINIBATCH, 0).bits(jnp.arange(2**14), 4)
    assert_even(np.bincount(np.asarray(below(words, 37)).ravel(), minlength=37))


LARGEST = 512
jitted_permutation = jax.jit(lambda size, key: permuted(jnp.minimum(jnp.arange(LARGEST), size - 1), size, key))


@compiles
@given(st.integers(1, LARGEST), st.integers(0, WORD - 1))
def test_permuted_is_a_bijection(size: int, key: int):
    places = np.asarray(jitted_permutation(size, jnp.uint32(key)))[:size]
    np.testing.assert_array_equal(np.sort(places), np.arange(size))


def test_every_order_of_four_is_as_likely():
    keys = Stream(0, Purpose.MINIBATCH, 0).bits(jnp.arange(24_000), 1)[:, 0]
    orders = np.asarray(jax.jit(jax.vmap(lambda key: permuted(jnp.arange(4), 4, key)))(keys))
    assert_even(np.unique(orders @ [64, 16, 4, 1], return_counts=True)[1])
    assert len(np.unique(orders, axis=0)) == 24


def test_every_place_is_as_likely():
    keys = Stream(1, Purpose.MINIBATCH, 0).bits(jnp.arange(20_000), 1)[:, 0]
    few = jax.jit(jax.vmap(lambda key, size: permuted(jnp.arange(4), size, key), in_axes=(0, None)))
    for size in (37, 64):
        places = np.asarray(few(keys, size))
        for position in range(4):
            assert_even(np.bincount(places[:, position], minlength=size))
        # Neighbours end up anywhere else, at any distance as likely.
        assert_even(np.bincount((places[:, 1] - places[:, 0]) % size, minlength=size)[1:])
