"""Local work: how many steps a client takes, and which samples each step sees.

Every minibatch is addressed by (seed, round, client, step); none depends on what was drawn before it.
"""

from typing import Any, Self

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.errors import LARGEST, flag, require, whole
from fedtide.streams import Stream, below, permuted
from fedtide.types import part


class _Minibatches:
    """Work in minibatches of `batch` samples, which clients of any size can do."""

    batch: int

    def fit(self, sizes: np.ndarray) -> Self:
        return self

    def a_pass(self, size: Array) -> Array:
        return -(-jnp.asarray(size, jnp.int32) // self.batch)


class _WithReplacement(_Minibatches):
    """Each minibatch is drawn uniformly with replacement, so gradients are unbiased."""

    def minibatch(self, stream: Stream, client: Array, size: Array, step: Array | int) -> tuple[Array, Array]:
        # Counters advance by whole blocks of four, so that no two steps share a block.
        start = jnp.asarray(step, jnp.uint32) * (4 * -(-self.batch // 4))
        return below(stream.bits(client, self.batch, start), size), jnp.ones(self.batch, bool)


@part
class Steps(_WithReplacement):
    """`count` minibatch steps; each minibatch drawn uniformly with replacement, so gradients are unbiased."""

    count: int = 5
    batch: int = 32

    def __post_init__(self):
        _whole(self, count=0, batch=1)

    def steps(self, stream: Stream, client: Array, size: Array) -> int:
        return self.count

    def most(self, size: Array) -> int:
        return self.count


@part
class StepsPerClient(_WithReplacement):
    """A number of minibatch steps for each client: devices of different speed."""

    counts: Array
    batch: int = 32

    def __post_init__(self):
        counts = np.asarray(self.counts)
        require(counts.ndim == 1 and counts.dtype.kind in "iu", "work.counts", self.counts, "one integer a client")
        require(bool((counts >= 0).all()), "work.counts", counts.min(), "0 or more steps for every client")
        _whole(self, batch=1)
        object.__setattr__(self, "counts", counts.astype(np.int32))

    def fit(self, sizes: np.ndarray) -> Self:
        entries, clients = len(self.counts), len(sizes)
        require(entries == clients, "work.counts", f"{entries} entries", f"one for each of {clients} clients")
        return self

    def steps(self, stream: Stream, client: Array, size: Array) -> Array:
        return jnp.asarray(self.counts)[client]

    def most(self, size: Array) -> Array:
        return jnp.asarray(self.counts).max()


@part
class RandomSteps(_WithReplacement):
    """`low` to `high` minibatch steps (both included), uniformly: drawn each round, or with `fixed` once a client.

    Devices of different speed, as in FedNova's experiments. (The authors' code leaves the upper end out.)
    """

    low: int = 2
    high: int = 5
    batch: int = 32
    fixed: bool = False

    def __post_init__(self):
        _whole(self, low=0, high=0, batch=1)
        flag("work.fixed", self.fixed)
        require(self.low <= self.high, "work.high", self.high, f"{self.low} or more, as work.low")

    def steps(self, stream: Stream, client: Array, size: Array) -> Array:
        words = (stream._replace(round=0) if self.fixed else stream).bits(client, 1)[..., 0]
        return self.low + below(words, self.high - self.low + 1)

    def most(self, size: Array) -> int:
        return self.high


@part
class Epochs(_Minibatches):
    """`count` passes over the client's samples, reshuffled each pass; the last minibatch of a pass may be smaller.

    Within a pass minibatches are not independent: theory that assumes unbiased minibatches wants `Steps`.
    """

    count: int = 1
    batch: int = 32

    def __post_init__(self):
        _whole(self, count=0, batch=1)

    def fit(self, sizes: np.ndarray) -> Self:
        passes = max(1, -(-int(sizes.max()) // self.batch))
        most = LARGEST // passes
        require(self.count <= most, "work.count", self.count, f"at most {most:,}: a client has {passes:,} minibatches")
        return self

    def steps(self, stream: Stream, client: Array, size: Array) -> Array:
        return self.count * self.a_pass(size)

    def most(self, size: Array) -> Array:
        return self.count * self.a_pass(size).max()

    def minibatch(self, stream: Stream, client: Array, size: Array, step: Array | int) -> tuple[Array, Array]:
        epoch, within = jnp.divmod(jnp.asarray(step, jnp.int32), self.a_pass(size))
        place = within * self.batch + jnp.arange(self.batch)
        present = place < size
        key = stream.bits(client, 1, start=4 * epoch)[0]
        return permuted(jnp.where(present, place, 0), size, key), present


@part
class FullBatch:
    """`count` steps of full gradients over all the client's samples.

    `largest`, the most samples that a client has, is filled in when the federation is known.
    """

    count: int = 1
    largest: int | None = None

    def __post_init__(self):
        _whole(self, count=0)
        if self.largest is not None:
            _whole(self, largest=1)

    def fit(self, sizes: np.ndarray) -> "FullBatch":
        most = int(sizes.max())
        if self.largest is not None:
            require(self.largest >= most, "work.largest", self.largest, f"{most} or more: a client has so many")
        return FullBatch(self.count, self.largest or most)

    def steps(self, stream: Stream, client: Array, size: Array) -> int:
        return self.count

    def most(self, size: Array) -> int:
        return self.count

    def a_pass(self, size: Array) -> int:
        return 1

    def minibatch(self, stream: Stream, client: Array, size: Array, step: Array | int) -> tuple[Array, Array]:
        assert self.largest is not None, "fit() comes first"
        place = jnp.arange(self.largest)
        return jnp.minimum(place, size - 1), place < size


def _whole(work: Any, **lowest: int) -> None:
    for name, low in lowest.items():
        object.__setattr__(work, name, whole(f"work.{name}", getattr(work, name), low))
