"""Addressed randomness: every random number is a function of (seed, purpose, round, client, counter).

Nothing is consumed, so nothing depends on order: all methods get the same availability and the same
minibatches, chunking and cohort order change no number, and a resumed run equals an uninterrupted one.

The function is the counter-based hash pcg4d, a bijection on 128 bits, so that distinct
addresses never share a state; it takes a few integer operations, cheap enough for inner loops. It ends with one more
xor-shift than published: the low bits of the published function are far from uniform.

Reference: Jarzynski and Olano, "Hash functions for GPU rendering", JCGT 9(3), 2020.
"""

import enum
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import ndtri


class Purpose(enum.IntEnum):
    """What a random number is for. Purposes share no numbers; at most eight fit the address."""

    AVAILABILITY = 0
    MINIBATCH = 1
    QUERY = 2
    PARTICIPATION = 3
    MODEL = 4
    WORK = 5
    MEASUREMENT = 6
    TIME = 7


class Stream(NamedTuple):
    """The random numbers of one seed, purpose and round."""

    seed: Array | int
    purpose: int
    round: Array | int = 0

    def bits(self, client: Array | int, count: int, start: Array | int = 0) -> Array:
        """`count` random words for each client: uint32[*client.shape, count].

        `start` is the first counter, a multiple of four where it is not 0, so that long sequences can be drawn
        piece by piece.
        """
        client = jnp.asarray(client, jnp.uint32)[..., None]
        block = jnp.arange(-(-count // 4), dtype=jnp.uint32) + jnp.asarray(start, jnp.uint32) // 4
        address = jnp.asarray(self.round, jnp.uint32) * 8 + jnp.uint32(self.purpose)
        words = pcg4d(jnp.asarray(self.seed, jnp.uint32), address, client, block)
        return jnp.stack(words, axis=-1).reshape(*client.shape[:-1], -1)[..., :count]

    def uniform(self, client: Array | int, count: int | None = None, start: Array | int = 0) -> Array:
        """Uniform numbers in [0, 1) on a grid of 2⁻²⁴: float[*client.shape] or float[*client.shape, count]."""
        words = self.bits(client, 1 if count is None else count, start)
        numbers = (words >> 8).astype(jnp.result_type(float)) * 2.0**-24
        return numbers[..., 0] if count is None else numbers

    def key(self) -> Array:
        """A key for `jax.random`, for code that needs one (initial models)."""
        return jax.random.wrap_key_data(self.bits(0, 2), impl="threefry2x32")


def pcg4d(x: Array, y: Array, z: Array, w: Array) -> tuple[Array, Array, Array, Array]:
    """Four words in, four mixed words out, elementwise; a bijection."""
    x, y, z, w = (v * jnp.uint32(1664525) + jnp.uint32(1013904223) for v in jnp.broadcast_arrays(x, y, z, w))
    x, y, z, w = _cross(x, y, z, w)
    x, y, z, w = (v ^ (v >> 16) for v in (x, y, z, w))
    x, y, z, w = (v ^ (v >> 16) for v in _cross(x, y, z, w))
    return x, y, z, w


def normal(uniform: Array) -> Array:
    """Standard normal numbers from uniform ones in [0, 1), which are multiples of 2⁻²⁴: half a step in place of 0 keeps
    them finite."""
    return ndtri(jnp.maximum(uniform, 2.0**-25))


def below(words: Array, size: Array | int) -> Array:
    """Maps random words to integers in [0, size); the relative bias of a probability is below size / 2²⁴."""
    numbers = (words >> 8).astype(jnp.float32) * jnp.float32(2.0**-24)
    return jnp.minimum((numbers * size).astype(jnp.int32), size - 1)


def permuted(position: Array, size: Array | int, key: Array, rounds: int = 40) -> Array:
    """Element `position` of a random permutation of range(size), without building the permutation.

    Swap-or-not: in each round a random bit of the pair x and (k_r − x) mod n decides whether the two swap. Works for
    any size and order of access, without memory; `key` is a random word.

    Reference: Hoang, Morris and Rogaway, "An enciphering scheme based on a card shuffle", CRYPTO 2012.
    """
    size = jnp.asarray(size, jnp.uint32)
    key = jnp.asarray(key, jnp.uint32)

    def swap(r: Array, x: Array) -> Array:
        shift, salt, _, _ = pcg4d(key, jnp.uint32(r), jnp.uint32(0), jnp.uint32(0))
        partner = (shift % size + size - x) % size
        swapped = pcg4d(salt, jnp.maximum(x, partner), key, jnp.uint32(1))[0] >> 31
        return jnp.where(swapped == 1, partner, x)

    # On a GPU an iteration of a loop takes longer than all the rounds; on a CPU unrolling only compiles longer.
    on_cpu = jax.default_backend() == "cpu"
    element = jax.lax.fori_loop(
        0, rounds, swap, jnp.asarray(position, jnp.uint32), unroll=4 if on_cpu else rounds
    ).astype(jnp.int32)
    # Without the barrier every user of the element would compute it again.
    return element if on_cpu else jax.lax.optimization_barrier(element)


def _cross(x: Array, y: Array, z: Array, w: Array) -> tuple[Array, Array, Array, Array]:
    x = x + y * w
    y = y + z * x
    z = z + x * y
    w = w + y * z
    return x, y, z, w
