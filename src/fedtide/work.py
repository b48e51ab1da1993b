"""Local work: how many steps a client takes, and which samples each step sees.

Every minibatch is addressed by (seed, round, client, step); none depends on what was drawn before it.
"""

from typing import Self

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.declared import LocalWork
from fedtide.errors import LARGEST, check_one_each, flag, require
from fedtide.streams import Stream, below, permuted
from fedtide.types import check_whole, part


class _Minibatches:
    """Work in minibatches of `batch` samples, for clients of any size."""

    batch: int

    def fit(self, sizes: np.ndarray) -> Self:
        return self

    def steps_per_epoch(self, size: Array) -> Array:
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
        check_whole(self, "work", count=0, batch=1)

    def in_theory(self, sizes: np.ndarray) -> LocalWork:
        return LocalWork(np.full(len(sizes), float(self.count)), self.batch)

    def steps(self, stream: Stream, client: Array, size: Array) -> int:
        return self.count

    def most(self, size: Array) -> int:
        return self.count


@part
class StepsPerClient(_WithReplacement):
    """A number of minibatch steps for each client: devices of different speeds."""

    counts: Array
    batch: int = 32

    def __post_init__(self):
        counts = np.asarray(self.counts)
        require(counts.ndim == 1 and counts.dtype.kind in "iu", "work.counts", self.counts, "one integer per client")
        require(bool((counts >= 0).all()), "work.counts", counts.min(), "0 or more steps for every client")
        check_whole(self, "work", batch=1)
        object.__setattr__(self, "counts", counts.astype(np.int32))

    def fit(self, sizes: np.ndarray) -> Self:
        check_one_each("work.counts", self.counts, len(sizes))
        return self

    def in_theory(self, sizes: np.ndarray) -> LocalWork:
        return LocalWork(np.asarray(self.counts, float), self.batch)

    def steps(self, stream: Stream, client: Array, size: Array) -> Array:
        return jnp.asarray(self.counts)[client]

    def most(self, size: Array) -> Array:
        return jnp.asarray(self.counts).max()


class _Drawn:
    """A count from `low` to `high` (both included), uniform: drawn in each round, or with `fixed` once per client."""

    low: int
    high: int
    fixed: bool

    def __post_init__(self):
        check_whole(self, "work", low=0, high=0, batch=1)
        flag("work.fixed", self.fixed)
        require(self.low <= self.high, "work.high", self.high, f"{self.low} or more, as work.low")

    def in_theory(self, sizes: np.ndarray) -> LocalWork:
        return LocalWork(seeded=self.fixed)

    def drawn(self, stream: Stream, client: Array) -> Array:
        words = (stream._replace(round=0) if self.fixed else stream).bits(client, 1)[..., 0]
        return self.low + below(words, self.high - self.low + 1)


@part
class RandomSteps(_Drawn, _WithReplacement):
    """`low` to `high` minibatch steps (both included), uniformly: drawn each round, or with `fixed` once per client.

    Devices of different speeds, as in FedNova's experiments. (The authors' code leaves the upper end out.)
    """

    low: int = 2
    high: int = 5
    batch: int = 32
    fixed: bool = False

    def steps(self, stream: Stream, client: Array, size: Array) -> Array:
        return self.drawn(stream, client)

    def most(self, size: Array) -> int:
        return self.high


class _Passes(_Minibatches):
    """Passes over the client's samples, reshuffled each pass; the last minibatch of a pass may be smaller."""

    def fits(self, name: str, count: int, sizes: np.ndarray) -> None:
        passes = max(1, -(-int(sizes.max()) // self.batch))
        most = LARGEST // passes
        require(count <= most, f"work.{name}", count, f"at most {most:,}: a client has {passes:,} minibatches")

    def minibatch(self, stream: Stream, client: Array, size: Array, step: Array | int) -> tuple[Array, Array]:
        epoch, within = jnp.divmod(jnp.asarray(step, jnp.int32), self.steps_per_epoch(size))
        place = within * self.batch + jnp.arange(self.batch)
        present = place < size
        key = stream.bits(client, 1, start=4 * epoch)[0]
        return permuted(jnp.where(present, place, 0), size, key), present


@part
class Epochs(_Passes):
    """`count` passes over the client's samples, reshuffled each pass; the last minibatch of a pass may be smaller.

    Within a pass minibatches are not independent: use `Steps` where theory assumes unbiased minibatches.
    """

    count: int = 1
    batch: int = 32

    def __post_init__(self):
        check_whole(self, "work", count=0, batch=1)

    def fit(self, sizes: np.ndarray) -> Self:
        self.fits("count", self.count, sizes)
        return self

    def in_theory(self, sizes: np.ndarray) -> LocalWork:
        return LocalWork(self.count * np.ceil(sizes / self.batch))

    def steps(self, stream: Stream, client: Array, size: Array) -> Array:
        return self.count * self.steps_per_epoch(size)

    def most(self, size: Array) -> Array:
        return self.count * self.steps_per_epoch(size).max()


@part
class RandomEpochs(_Drawn, _Passes):
    """`low` to `high` passes (both included), uniformly: drawn in each round, or with `fixed` once per client.

    With clients of different sizes the number of steps differs by both, as in FedNova's experiments with E ~ U(2, 5).
    """

    low: int = 2
    high: int = 5
    batch: int = 32
    fixed: bool = False

    def fit(self, sizes: np.ndarray) -> Self:
        self.fits("high", self.high, sizes)
        return self

    def steps(self, stream: Stream, client: Array, size: Array) -> Array:
        return self.drawn(stream, client) * self.steps_per_epoch(size)

    def most(self, size: Array) -> Array:
        return self.high * self.steps_per_epoch(size).max()


@part
class FullBatch:
    """`count` steps of full gradients over all the client's samples.

    `largest`, the most samples that a client has, is filled in from the federation.
    """

    count: int = 1
    largest: int | None = None

    def __post_init__(self):
        check_whole(self, "work", count=0, largest=1)

    def fit(self, sizes: np.ndarray) -> "FullBatch":
        most = int(sizes.max())
        if self.largest is not None:
            require(self.largest >= most, "work.largest", self.largest, f"{most} or more, the most samples of a client")
        return FullBatch(self.count, self.largest or most)

    def in_theory(self, sizes: np.ndarray) -> LocalWork:
        return LocalWork(np.full(len(sizes), float(self.count)))

    def steps(self, stream: Stream, client: Array, size: Array) -> int:
        return self.count

    def most(self, size: Array) -> int:
        return self.count

    def steps_per_epoch(self, size: Array) -> int:
        return 1

    def minibatch(self, stream: Stream, client: Array, size: Array, step: Array | int) -> tuple[Array, Array]:
        assert self.largest is not None, "fit() comes first"
        place = jnp.arange(self.largest)
        return jnp.minimum(place, size - 1), place < size
