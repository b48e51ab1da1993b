"""Local work: how many steps a client takes, and which samples each step sees.

Every minibatch is addressed by (seed, round, client, step); none depends on what was drawn before it.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.errors import require, whole
from fedtide.streams import Stream, below, permuted
from fedtide.types import part


class _AnySize:
    """Work that clients of any size can do."""

    def check(self, sizes: np.ndarray) -> None:
        return


@part
class Steps(_AnySize):
    """`count` minibatch steps; each minibatch drawn uniformly with replacement, so gradients are unbiased."""

    count: int = 5
    batch: int = 32

    def __post_init__(self):
        _whole(self, count=0, batch=1)

    def steps(self, sizes: Array) -> int:
        return self.count

    def minibatch(self, stream: Stream, client: Array, size: Array, step: Array | int) -> tuple[Array, Array]:
        return _with_replacement(stream, client, size, step, self.batch)


@part
class StepsPerClient:
    """A number of minibatch steps for each client: devices of different speed."""

    counts: Array
    batch: int = 32

    def __post_init__(self):
        counts = np.asarray(self.counts)
        require(counts.ndim == 1 and counts.dtype.kind in "iu", "work.counts", self.counts, "one integer a client")
        require(bool((counts >= 0).all()), "work.counts", counts.min(), "0 or more steps for every client")
        _whole(self, batch=1)
        object.__setattr__(self, "counts", counts.astype(np.int32))

    def check(self, sizes: np.ndarray) -> None:
        clients = len(sizes)
        require(
            len(self.counts) == clients,
            "work.counts",
            f"{len(self.counts)} entries",
            f"one for each of {clients} clients",
        )

    def steps(self, sizes: Array) -> Array:
        return jnp.asarray(self.counts)

    def minibatch(self, stream: Stream, client: Array, size: Array, step: Array | int) -> tuple[Array, Array]:
        return _with_replacement(stream, client, size, step, self.batch)


@part
class Epochs(_AnySize):
    """`count` passes over the client's samples, reshuffled each pass; the last minibatch of a pass may be smaller.

    Within a pass minibatches are not independent: theory that assumes unbiased minibatches wants `Steps`.
    """

    count: int = 1
    batch: int = 32

    def __post_init__(self):
        _whole(self, count=0, batch=1)

    def steps(self, sizes: Array) -> Array:
        return self.count * self._steps_a_pass(sizes)

    def minibatch(self, stream: Stream, client: Array, size: Array, step: Array | int) -> tuple[Array, Array]:
        a_pass = self._steps_a_pass(size)
        epoch, within = jnp.divmod(jnp.asarray(step, jnp.int32), a_pass)
        place = within * self.batch + jnp.arange(self.batch)
        present = place < size
        key = stream.bits(client, 1, start=4 * epoch)[0]
        return permuted(jnp.where(present, place, 0), size, key), present

    def _steps_a_pass(self, size: Array) -> Array:
        return -(-jnp.asarray(size, jnp.int32) // self.batch)


@part
class FullBatch:
    """`count` steps of full gradients over all the client's samples; `largest` is the most samples a client has."""

    largest: int
    count: int = 1

    def __post_init__(self):
        _whole(self, largest=1, count=0)

    def check(self, sizes: np.ndarray) -> None:
        require(
            self.largest >= sizes.max(), "work.largest", self.largest, f"{sizes.max()} or more: a client has so many"
        )

    def steps(self, sizes: Array) -> int:
        return self.count

    def minibatch(self, stream: Stream, client: Array, size: Array, step: Array | int) -> tuple[Array, Array]:
        place = jnp.arange(self.largest)
        return jnp.minimum(place, size - 1), place < size


def _whole(work: Any, **lowest: int) -> None:
    for name, low in lowest.items():
        object.__setattr__(work, name, whole(f"work.{name}", getattr(work, name), low))


def _with_replacement(stream: Stream, client: Array, size: Array, step: Array | int, batch: int) -> tuple[Array, Array]:
    # Counters advance by whole blocks of four, so that no two steps share a block.
    start = jnp.asarray(step, jnp.uint32) * (4 * -(-batch // 4))
    return below(stream.bits(client, batch, start), size), jnp.ones(batch, bool)
