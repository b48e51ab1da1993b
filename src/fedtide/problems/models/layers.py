"""Layers as pure functions, samples last: images are [c, h, w, b], features [n, b].

Parameters have the shapes and the initial distribution of PyTorch's.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

from fedtide.errors import check_one_of, require
from fedtide.problems.models.base import Compute
from fedtide.problems.models.products import convolve, product
from fedtide.types import Params


def features(inputs: int | tuple[int, ...]) -> int:
    """The number of features of a sample of this shape."""
    size = inputs if isinstance(inputs, int) else math.prod(inputs)
    require(size >= 1, "inputs", inputs, "1 or more features")
    return size


def image_shape(inputs: int | tuple[int, ...]) -> tuple[int, int, int]:
    """(height, width, channels) of a sample; one channel unless given."""
    shape = tuple([inputs] if isinstance(inputs, int) else inputs)
    require(len(shape) in (2, 3) and min(shape) >= 1, "inputs", inputs, "(height, width) or (height, width, channels)")
    return (shape[0], shape[1], shape[2] if len(shape) == 3 else 1)


def check_classes(classes: int) -> None:
    require(classes >= 2, "classes", classes, "2 or more")


def scaled(x: Array, dtype: DTypeLike) -> Array:
    """Bytes as fractions of 255; other integers in `dtype`; floating-point numbers unchanged."""
    if x.dtype == jnp.uint8:
        return x.astype(dtype) / 255
    return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(dtype)


def uniform_layer(key: Array, shape: tuple[int, ...], *, bias: bool = True) -> Params:
    """A weight [outputs, inputs, …] and a bias, uniform in ±1/√fan-in, as PyTorch initialises its layers."""
    bound = 1 / math.sqrt(math.prod(shape[1:]))
    for_weight, for_bias = jax.random.split(key)
    layer: dict[str, Array] = {"weight": jax.random.uniform(for_weight, shape, minval=-bound, maxval=bound)}
    if bias:
        layer["bias"] = jax.random.uniform(for_bias, shape[:1], minval=-bound, maxval=bound)
    return layer


def dense(layer: Params, x: Array, out: DTypeLike | None = None) -> Array:
    """W x + b for features x [n, b]; `out` is the result's type (x's by default)."""
    y: Any = product(layer["weight"], x, jnp.dtype(out or x.dtype))
    return y + layer["bias"].astype(y.dtype)[:, None]


def convolution(layer: Params, x: Array, padding: int = 0) -> Array:
    """The convolution of x [c, h, w, b] with the layer's weight [o, c, k, k], stride 1; without the bias."""
    if padding:
        x = jnp.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    return convolve(layer["weight"], x)


def add_bias(layer: Params, x: Array) -> Array:
    return x + layer["bias"].astype(x.dtype)[:, None, None, None]


def pool(x: Array) -> Array:
    """The maximum of each 2 × 2 square of x [c, h, w, b]; an odd last row or column is left out.

    Among equal values the first one gets the gradient, as in PyTorch.
    """
    _, h, w, _ = x.shape
    return _pool(x[:, : h // 2 * 2, : w // 2 * 2])


@jax.custom_vjp
def _pool(x: Array) -> Array:
    return _pool_forward(x)[0]


def _pool_forward(x: Array) -> tuple[Array, Array]:
    c, h, w, b = x.shape
    corners = x.reshape(c, h // 2, 2, w // 2, 2, b)
    one, two, three, four = (corners[:, :, i, :, j] for i in range(2) for j in range(2))
    upper, lower = jnp.maximum(one, two), jnp.maximum(three, four)
    which = jnp.where(upper >= lower, jnp.where(one >= two, 0, 1), jnp.where(three >= four, 2, 3))
    return jnp.maximum(upper, lower), which.astype(jnp.int8)


def _pool_backward(which: Array, dy: Array) -> tuple[Array]:
    c, h, w, b = dy.shape
    corner = jnp.arange(4, dtype=jnp.int8).reshape(2, 1, 2, 1)
    dx = jnp.where(which[:, :, None, :, None] == corner, dy[:, :, None, :, None], 0)
    return (dx.reshape(c, 2 * h, 2 * w, b),)


_pool.defvjp(_pool_forward, _pool_backward)


def group_norm(layer: Params, x: Array, groups: int) -> Array:
    """x [c, h, w, b], normalised over each sample's groups of channels, then scaled and shifted per channel."""
    return _group_norm(layer["weight"], layer["bias"], x, groups)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _group_norm(weight: Array, bias: Array, x: Array, groups: int) -> Any:
    return _group_norm_forward(weight, bias, x, groups)[0]


def _group_norm_forward(weight: Array, bias: Array, x: Array, groups: int) -> tuple[Array, tuple[Array, ...]]:
    exact = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    grouped = exact.reshape(groups, -1, x.shape[-1])
    mean = grouped.mean(axis=1)
    deviation = jax.lax.rsqrt(jnp.square(grouped - mean[:, None]).mean(axis=1) + 1e-5)  # 1 / deviation
    mean, deviation = (jnp.repeat(v, len(x) // groups, axis=0) for v in (mean, deviation))  # [c, b]
    y = (exact - _everywhere(mean)) * _everywhere(weight[:, None] * deviation) + _everywhere(bias[:, None])
    return y.astype(x.dtype), (weight, x, mean, deviation)


def _group_norm_backward(groups: int, kept: tuple[Array, ...], dy: Array) -> tuple[Array, ...]:
    """dx = σ⁻¹ (γ dy − ⟨γ dy⟩ − x̂ ⟨γ dy x̂⟩), ⟨·⟩ the mean over a group: one pass for all sums, one for dx.

    The general derivative would keep and read several float32 copies of x.
    """
    weight, x, mean, deviation = kept
    dy, exact = (v.astype(mean.dtype) for v in (dy, x))
    sums = dy.sum(axis=(1, 2)), (dy * (exact - _everywhere(mean))).sum(axis=(1, 2)) * deviation  # [c, b]

    def over_group(values: Array) -> Array:
        size = len(x) // groups
        total = values.reshape(groups, size, -1).sum(axis=1) / (size * x.shape[1] * x.shape[2])
        return jnp.repeat(total, size, axis=0)

    level, slope = (over_group(weight[:, None] * each) for each in sums)
    dx = dy * _everywhere(weight[:, None] * deviation) - _everywhere(deviation * level)
    dx = dx - (exact - _everywhere(mean)) * _everywhere(deviation * deviation * slope)
    return sums[1].sum(axis=1), sums[0].sum(axis=1), dx.astype(x.dtype)


_group_norm.defvjp(_group_norm_forward, _group_norm_backward)


def _everywhere(values: Array) -> Array:
    """[c, b] or [c, 1], broadcast over an image."""
    return values[:, None, None]


def on_images(
    forward: Callable[[Params, Array], Array], shape: tuple[int, int, int], compute: Compute, widest: int
) -> Callable[[Params, Array], Array]:
    """`apply(params, x [b, …]) -> logits [b, classes]` of a network `forward(params, images [c, h, w, b])`.

    Many samples (in an evaluation) are processed in blocks: a sample's patches need up to `widest` numbers, far more
    than the sample itself.
    """
    check_one_of("compute", compute, Compute)
    # On a CPU a block should fit into the cache; on a GPU the blocks of a hundred replicas should fit into memory.
    limit = 2**22 if jax.default_backend() == "cpu" else 2**24
    block = max(128, 2 ** ((limit // widest).bit_length() - 1))

    def images(params: Params, x: Array) -> Array:
        own = jax.tree.leaves(params)[0].dtype
        x = scaled(x, own).astype(jnp.bfloat16 if compute == "bfloat16" else own)
        return forward(params, x.reshape(-1, *shape).transpose(3, 1, 2, 0)).T

    def apply(params: Params, x: Array) -> Array:
        if len(x) <= block:
            return images(params, x)
        whole = len(x) // block * block
        logits = jax.lax.map(lambda x: images(params, x), x[:whole].reshape(-1, block, *x.shape[1:]))
        logits = logits.reshape(whole, -1)
        return jnp.concatenate([logits, images(params, x[whole:])]) if whole < len(x) else logits

    return apply
