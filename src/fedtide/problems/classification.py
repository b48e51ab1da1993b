"""Classification by any model, on the data of all clients in one array."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from fedtide.errors import FedtideError, require
from fedtide.kinds import kinds_checked
from fedtide.minimise import minimiser
from fedtide.problems.importance import Importance, target_importance
from fedtide.problems.models import Model
from fedtide.types import Evaluation, Params, part

_EVALUATION_CHUNK = 8192

Data = Sequence[tuple[Any, Any]]
"""One pair (x [n, …], y [n]) per client."""


class Samples(NamedTuple):
    """The samples of all clients, one client after the other: for a million clients, faster than as many pairs."""

    x: Any  # [S, …]
    y: Any  # [S]
    sizes: Any  # [N] number of samples of each client


def taken(x: np.ndarray, y: np.ndarray, numbers: Sequence[np.ndarray]) -> Samples:
    """The samples with these numbers, for each client."""
    order = np.concatenate(numbers)
    return Samples(x[order], y[order], np.array([len(mine) for mine in numbers]))


class ModelBuilder(Protocol):
    """Builds a model for samples of this shape and this number of classes, such as `softmax_regression`."""

    def __call__(self, inputs: tuple[int, ...], classes: int, /) -> Model: ...


@part
class Classification:
    """F_k(w) = mean cross-entropy over client k's samples + (ridge/2) ‖w‖².

    Samples are in one array, client after client: memory is O(samples) for any sizes. Further samples belong to no
    client (`padded`). The ridge applies to every parameter, biases included. Build it with `classification(...)`.
    """

    x: Array  # [≥ S, …]
    y: Array  # [≥ S] class of each sample
    sizes: Array  # [N]
    test_x: Array  # [≥ S', …]
    test_y: Array  # [≥ S']
    test_sizes: Array  # [N]
    importance: Array  # [N]
    ridge: float
    model: Model
    penalised: bool = True  # False where the ridge is 0, which saves passes over the parameters

    @property
    def label_counts(self) -> np.ndarray:
        """Training samples of each class [N, classes]."""
        _, y, sizes = self._samples()
        counts = np.zeros((len(sizes), _classes(self.model, self.x)))
        np.add.at(counts, (np.repeat(np.arange(len(sizes)), sizes), y), 1)
        return counts

    def init(self, key: Array) -> Params:
        return self.model.init(key)

    def losses(self, params: Params, samples: Array) -> Array:
        # The engine's sample numbers are in bounds: checking each would cost as much as reading the sample.
        x, y = (
            jnp.asarray(v).at[samples].get(mode="promise_in_bounds", wrap_negative_indices=False)
            for v in (self.x, self.y)
        )
        return _score(self.model, params, x, y)[0]

    def penalty(self, params: Params) -> Array:
        return 0.5 * self.ridge * _square_norm(params) if self.penalised else jnp.zeros(())

    def evaluate(self, params: Params) -> Evaluation:
        train, _ = self._by_client(*self._scores(params, self.x, self.y), self.sizes)
        scores = self._scores(params, self.test_x, self.test_y)
        loss, accuracy = self._by_client(*scores, self.test_sizes)
        by_class = self._by_class(params, scores[1])
        return Evaluation(train + self.penalty(params), jnp.asarray(self.test_sizes) > 0, loss, accuracy, by_class)

    def client_optima(self) -> np.ndarray:
        """F*_k, each client's smallest loss [N] in float64, from the same start.

        Exact (about 1e-9 with the default ridge) for convex models; a local minimum for others.
        """
        x, y, sizes = self._samples()
        with jax.enable_x64(True):
            start, unravel = self._ravelled()
            solve = _minimiser(self.model, unravel, 1e-7, False)
            optima = []
            for first, size in zip(np.cumsum(sizes) - sizes, sizes, strict=True):
                # Padded to a power of four, so that clients share a few compiled shapes.
                place = np.arange(4 ** -(-int(size - 1).bit_length() // 2))
                rows = first + np.minimum(place, size - 1)
                optima.append(solve(start, _double(x[rows]), y[rows], (place < size) / size, self.ridge)[1])
        return np.array(optima)

    def optimum(self, weights: Importance | None = None) -> Params:
        """Parameters that minimise Σ p_k F_k in float64; p is the importance, or any `weights` (normalised).

        With p ∝ π q this is the biased optimum w_B* of fixed weights q. The gradient there is below 1e-8 for convex
        models with a ridge; a local minimum for others.
        """
        x, y, sizes = self._samples()
        p = target_importance(np.asarray(self.importance) if weights is None else weights, sizes, "weights")
        with jax.enable_x64(True):
            start, unravel = self._ravelled()
            solve = _minimiser(self.model, unravel, 1e-9, True)
            w, _ = solve(start, _double(x), y, np.repeat(p / sizes, sizes), self.ridge)
            return jax.tree.map(np.asarray, unravel(jnp.asarray(w)))

    def hold_out(self, fraction: float, seed: int = 0) -> "Classification":
        """The same clients with a fraction of each one's training samples as its test samples, instead of the old ones.

        For tuning. A client with two samples or more gives at least one and keeps at least one; a client with one
        sample keeps it. The samples that a client gives depend on the seed and its number only.
        """
        require(0 < fraction < 1, "fraction", fraction, "in (0, 1)")
        x, y, sizes = self._samples()
        given = np.where(sizes >= 2, np.clip(np.round(fraction * sizes), 1, np.maximum(sizes - 1, 1)), 0).astype(int)
        held = np.zeros(len(y), bool)
        for client, (first, size, count) in enumerate(zip(np.cumsum(sizes) - sizes, sizes, given, strict=True)):
            order = np.random.default_rng([seed, client]).permutation(size)
            held[first + order[:count]] = True
        kept = {"x": x[~held], "y": y[~held], "sizes": (sizes - given).astype(np.int32)}
        out = {"test_x": x[held], "test_y": y[held], "test_sizes": given.astype(np.int32)}
        return dataclasses.replace(self, **kept, **out)

    def padded(self, samples: int, test_samples: int) -> "Classification":
        """The same problem in arrays of these lengths; the added samples belong to no client.

        Draws of the data with different sizes then have arrays of the same shape, and share a compiled program. Results
        are the same up to rounding.
        """
        x, y = _extended("samples", samples, *_owned(self.x, self.y, self.sizes))
        test = _owned(self.test_x, self.test_y, self.test_sizes)
        test_x, test_y = _extended("test_samples", test_samples, *test)
        return dataclasses.replace(self, x=x, y=y, test_x=test_x, test_y=test_y)

    def _samples(self) -> tuple[Any, Any, Any]:
        """(x, y, sizes) of the clients' training samples, in NumPy."""
        return *_owned(self.x, self.y, self.sizes), np.asarray(self.sizes)

    def _ravelled(self) -> tuple[Array, Callable[[Array], Params]]:
        # A model may have float32 parameters, whatever JAX's default is.
        return ravel_pytree(jax.tree.map(lambda p: jnp.asarray(p, float), self.init(jax.random.key(0))))

    def _scores(self, params: Params, x: Array, y: Array) -> tuple[Array, Array]:
        """(loss, 1 where the prediction is correct) of every sample, chunk by chunk."""
        x, y = jnp.asarray(x), jnp.asarray(y)
        if len(x) == 0:
            return jnp.zeros(0), jnp.zeros(0)
        chunks, rest = divmod(len(x), _EVALUATION_CHUNK)

        def chunk(i: Array) -> tuple[Array, Array]:
            first = i * _EVALUATION_CHUNK
            return _score(
                self.model, params, *(jax.lax.dynamic_slice_in_dim(v, first, _EVALUATION_CHUNK) for v in (x, y))
            )

        pieces = [jax.tree.map(jnp.ravel, jax.lax.map(chunk, jnp.arange(chunks)))] if chunks else []
        if rest:
            pieces.append(_score(self.model, params, x[len(x) - rest :], y[len(x) - rest :]))
        loss, correct = (jnp.concatenate(v) for v in zip(*pieces, strict=True))
        return loss, correct

    @staticmethod
    def _by_client(loss: Array, correct: Array, sizes: Array) -> tuple[Array, Array]:
        """Each client's mean loss and accuracy; nan where it has no samples."""
        sizes = jnp.asarray(sizes)
        # The samples beyond the last client's are those of a client more, which the sums leave out.
        ends = jnp.append(sizes, len(loss) - sizes.sum())
        owner = jnp.repeat(jnp.arange(len(ends)), ends, total_repeat_length=len(loss))
        scores = jnp.stack([loss, correct.astype(loss.dtype)], -1)
        sums = jax.ops.segment_sum(scores, owner, len(ends), indices_are_sorted=True)[:-1]
        means = jnp.where(sizes[:, None] > 0, sums / jnp.maximum(sizes, 1)[:, None], jnp.nan)
        return means[:, 0], means[:, 1]

    def _by_class(self, params: Params, correct: Array) -> Array:
        """Accuracy over all test samples of each class; nan where there are none."""
        sample = jax.ShapeDtypeStruct((1, *self.test_x.shape[1:]), jax.dtypes.canonicalize_dtype(self.test_x.dtype))
        classes = jax.eval_shape(self.model.apply, params, sample).shape[1]
        owned = jnp.arange(len(correct)) < jnp.asarray(self.test_sizes).sum()
        of_class = (jnp.asarray(self.test_y) == jnp.arange(classes)[:, None]) & owned
        return jnp.where(of_class, correct, 0).sum(axis=1) / of_class.sum(axis=1)


@kinds_checked
def classification(
    model: Model | tuple[Callable[[Array], Params], Callable[[Params, Array], Array]],
    train: Data | Samples,
    test: Data | Samples | None = None,
    *,
    ridge: float = 1e-2,
    importance: Importance = "uniform",
) -> Classification:
    """A classification problem from a model and one (x, y) pair per client, or `Samples(x, y, sizes)` of all of them.

    `model` is any pair `init(key) -> params`, `apply(params, x) -> logits`; y are classes 0, 1, …. `importance` is the
    target α: the same for every client, by number of training samples, or given. `ridge` is r of (r/2) ‖w‖².
    """
    model = Model(*model)
    require(0 <= ridge < np.inf, "ridge", ridge, "0 or more")
    x, y, sizes = _flat("train", train)
    require(bool(sizes.min() > 0), f"train[{sizes.argmin()}]", "0 samples", "1 or more for each client")
    test_x, test_y, test_sizes = _flat("test", Samples(x[:0], y[:0], 0 * sizes) if test is None else test)
    require(len(test_sizes) == len(sizes), "test", f"{len(test_sizes)} clients", f"{len(sizes)}, as train")
    require(test_x.shape[1:] == x.shape[1:], "shape of test x", test_x.shape[1:], f"{x.shape[1:]}, as train")
    classes = _classes(model, x)
    for name, labels in (("train", y), ("test", test_y)):
        outside = (labels < 0) | (labels >= classes)
        allowed = f"in 0 … {classes - 1}: the model has {classes} logits"
        require(not outside.any(), f"{name} y", labels[outside][:1], allowed)
    alpha = target_importance(importance, sizes)
    return Classification(x, y, sizes, test_x, test_y, test_sizes, alpha, ridge, model, ridge > 0)


def _score(model: Model, params: Params, x: Array, y: Array) -> tuple[Array, Array]:
    """(cross-entropy, 1 where the prediction is correct) of each sample; nan where the loss is not finite."""
    logits = model.apply(params, x).T  # [classes, b]: sums over classes then run along samples
    top = jax.lax.stop_gradient(logits.max(axis=0))
    own = jnp.where(y == jnp.arange(len(logits))[:, None], logits, 0).sum(axis=0)
    loss = jnp.log(jnp.exp(logits - top).sum(axis=0)) + top - own
    right = (logits.argmax(axis=0) == y).astype(loss.dtype)
    return loss, jnp.where(jnp.isfinite(loss), right, jnp.nan)


def _square_norm(params: Params) -> Array:
    return jnp.stack([(p * p).sum() for p in jax.tree.leaves(params)]).sum()


@functools.lru_cache(maxsize=16)  # one compiled program for all weights and ridges of a model
def _minimiser(
    model: Model, unravel: Callable[[Array], Params], tolerance: float, polish: bool
) -> Callable[..., tuple[Any, float]]:
    def loss(w: Array, x: Array, y: Array, weight: Array, ridge: Array) -> Array:
        return (weight * _score(model, unravel(w), x, y)[0]).sum() + 0.5 * ridge * (w * w).sum()

    return minimiser(loss, tolerance, polish=polish)


def _flat(name: str, split: Data | Samples) -> Samples:
    """Checked samples of all clients. NumPy arrays: JAX takes them where it traces."""
    if isinstance(split, Samples):
        x, y, sizes = np.asarray(split.x), np.asarray(split.y), np.asarray(split.sizes)
        _check(name, x, y)
        fine = sizes.ndim == 1 and sizes.size > 0 and sizes.dtype.kind in "iu"
        require(fine, f"{name}.sizes", split.sizes, "one whole number for each client")
        require(bool((sizes >= 0).all()), f"{name}.sizes", int(sizes.min()), "0 or more")
        total = int(sizes.sum(dtype=np.int64))
        require(total == len(y), f"sum of {name}.sizes", total, f"{len(y):,}, the number of samples")
    else:
        require(len(split) > 0, name, "no clients", "one (x, y) pair for each client")
        pairs = [tuple(map(np.asarray, pair)) for pair in split]
        for client, (x, y) in enumerate(pairs):
            _check(f"{name}[{client}]", x, y)
            shape = pairs[0][0].shape[1:]
            require(
                x.shape[1:] == shape, f"shape of a sample of {name}[{client}]", x.shape[1:], f"{shape}, as {name}[0]"
            )
        x, y = np.concatenate([x for x, _ in pairs]), np.concatenate([y for _, y in pairs])
        sizes = np.array([len(y) for _, y in pairs])
    # Integers are kept (tokens, bytes of images), and so is float64, for computations in it.
    x = x if x.dtype == np.float64 or x.dtype.kind in "iu" else x.astype(np.float32)
    return Samples(x, y.astype(np.int32), sizes.astype(np.int32))


def _check(field: str, x: np.ndarray, y: np.ndarray) -> None:
    """Refuses samples that are not finite numbers with classes."""
    require(x.ndim >= 1 and y.ndim == 1, f"shapes of {field}", (x.shape, y.shape), "x [n, …] and y [n]")
    require(len(x) == len(y), field, f"{len(x)} x, {len(y)} y", "as many x as y")
    numbers = x.dtype.kind in "fiub" and y.dtype.kind in "fiub"
    require(numbers, f"types of {field}", (x.dtype.name, y.dtype.name), "numbers")
    # Integers are finite; looking at each would take as long as everything else.
    if not all(v.dtype.kind in "iub" or np.isfinite(v).all() for v in (x, y)):
        raise FedtideError(f"{field}: NaN or infinite values in x or y; all must be finite")
    classes = bool(((y == np.floor(y)) & (y >= -(2**31)) & (y < 2**31)).all())
    require(classes, f"{field} y", y, "whole numbers: the classes")


def _classes(model: Model, x: Any) -> int:
    """The model's number of logits, from a dry run."""
    sample = jax.ShapeDtypeStruct((1, *x.shape[1:]), jax.dtypes.canonicalize_dtype(x.dtype))
    try:
        logits = jax.eval_shape(lambda key, x: model.apply(model.init(key), x), jax.random.key(0), sample)
    except (TypeError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        raise FedtideError(f"model: cannot be applied to x of shape {sample.shape}: {reason}") from error
    fits = isinstance(logits, jax.ShapeDtypeStruct) and logits.ndim == 2 and logits.shape[0] == 1
    require(fits, "model.apply(params, x [1, …])", getattr(logits, "shape", logits), "logits of shape (1, classes)")
    return logits.shape[1]


def _owned(x: Any, y: Any, sizes: Any) -> tuple[Any, Any]:
    """The clients' samples, in NumPy."""
    count = int(np.sum(sizes))
    return np.asarray(x)[:count], np.asarray(y)[:count]


def _extended(field: str, length: int, *split: np.ndarray) -> Any:
    """x and y, extended by copies of their last sample: valid data for any model."""
    samples = len(split[0])
    require(length >= samples, field, length, f"{samples} or more, the number of samples")
    if samples == 0:
        return [np.zeros((length, *values.shape[1:]), values.dtype) for values in split]
    return [np.concatenate([values, np.repeat(values[-1:], length - samples, axis=0)]) for values in split]


def _double(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64) if x.dtype.kind == "f" else x
