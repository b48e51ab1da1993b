"""Convolutions as products of matrices, with derivatives of their own. Images are [c, h, w, b], samples last.

A convolution is one product, weight [o, c k k] × patches [c k k, h w b], whose result has the memory layout of the next
layer's image. Under `vmap` over clients it becomes a batched product instead of a grouped convolution, which is slow on
every device.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

_CACHED = 2**18  # numbers of patches that fit into the cache of a CPU core


def convolve(weight: Array, x: Array) -> Array:
    """The convolution of x [c, h, w, b] with weight [o, c, k, k], stride 1, without padding."""
    if jax.default_backend() == "cpu":
        return by_blocks(weight, x)
    return by_bands(weight, x) if _band_is_faster(weight, x) else by_patches(weight, x)


def _times(weight: Array, x: Array, out: Any) -> Array:
    return jnp.matmul(weight.astype(x.dtype), x, preferred_element_type=out)


def _for_weight(weight: Array, x: Array, dy: Array) -> Array:
    return jax.lax.dot_general(dy, x, (((1,), (1,)), ((), ())), preferred_element_type=weight.dtype)


def _for_input(weight: Array, dy: Array) -> Array:
    return jax.lax.dot_general(weight.astype(dy.dtype), dy, (((0,), (0,)), ((), ())))


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def product(weight: Array, x: Array, out: Any) -> Any:
    """weight [o, n] × x [n, b] in x's precision, summed in float32 at least; the result is of type `out`.

    It has its own derivative, because the general one would multiply float32 by bfloat16 in the backward pass: here
    both products are in x's precision, and only the weight's gradient has the precision of the weight.
    """
    return _times(weight, x, out)


def _product_forward(weight: Array, x: Array, out: Any) -> tuple[Array, tuple[Array, Array]]:
    return _times(weight, x, out), (weight, x)


def _product_backward(out: Any, kept: tuple[Array, Array], dy: Array) -> tuple[Array, Array]:
    weight, x = kept
    dy = dy.astype(x.dtype)
    return _for_weight(weight, x, dy), _for_input(weight, dy)


product.defvjp(_product_forward, _product_backward)


# All at once, for a GPU: few kernels, each of them large.


def by_patches(weight: Array, x: Array) -> Array:
    outputs, _, k, _ = weight.shape
    columns: Any = _patches(x, k)
    y: Any = product(weight.reshape(outputs, -1), columns.reshape(len(columns), -1), x.dtype)
    return y.reshape(outputs, *columns.shape[1:])


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _patches(x: Array, k: int) -> Any:
    """All k × k windows of x [c, h, w, b], as [c k k, h − k + 1, w − k + 1, b]: shifted views, stacked.

    x is materialised first: otherwise its computation may be repeated for every view. Up to nine views are stacked at
    once, more of them one axis after the other, which is faster from 5 × 5 on.
    """
    c, h, w, b = x.shape
    high, wide = h - k + 1, w - k + 1
    if high == wide == 1:
        return x.reshape(c * k * k, 1, 1, b)
    x = jax.lax.optimization_barrier(x)
    if k <= 3:
        x = jnp.stack([x[:, i : i + high, j : j + wide] for i in range(k) for j in range(k)], axis=1)
    else:
        x = jnp.stack([x[:, :, j : j + wide] for j in range(k)], axis=1)
        x = jnp.stack([x[:, :, i : i + high] for i in range(k)], axis=1)
    return x.reshape(c * k * k, high, wide, b)


def _patches_backward(k: int, kept: None, dy: Array) -> tuple[Array]:
    """Each pixel's gradient is the sum over its windows, in one pass over memory."""
    n, high, wide, b = dy.shape
    if high == wide == 1:
        return (dy.reshape(n // (k * k), k, k, b),)
    parts = dy.reshape(n // (k * k), k, k, high, wide, b).astype(jnp.promote_types(dy.dtype, jnp.float32))
    dx = sum(_shifted(parts[:, i, j], {1: i, 2: j}, k) for i in range(k) for j in range(k))
    return (jnp.asarray(dx, dy.dtype),)


_patches.defvjp(lambda x, k: (_patches(x, k), None), _patches_backward)


def _shifted(x: Array, by: dict[int, int], k: int) -> Array:
    """x with k − 1 more zeros along each axis of `by`, of which `by[axis]` at its start."""
    pads = [(by[axis], k - 1 - by[axis]) if axis in by else (0, 0) for axis in range(x.ndim)]
    return jnp.pad(x, pads)


# By whole rows, for a GPU and few channels.


def _band_is_faster(weight: Array, x: Array) -> bool:
    """Whether multiplying by zeros takes less time than writing and reading patches.

    A patch is k² numbers per pixel, written and read; a banded matrix multiplies each pixel's outputs by about k rows.
    A GPU does a few hundred operations of matrix products in the time in which it moves one byte.
    """
    outputs, _, k, _ = weight.shape
    return x.shape[1] > k > 3 and outputs * 2 * k * x.shape[2] < 200 * k * k


def by_bands(weight: Array, x: Array) -> Array:
    """The convolution as a product with a banded (Toeplitz) matrix, of some image rows at a time.

    y[o, r, j] = Σ_{c, i, l} band[o, r, j; c, i, l] x[c, i, l] with band[o, r, j; c, i, l] = weight[o, c, i − r, l − j].
    """
    outputs, c, k, _ = weight.shape
    _, h, w, b = x.shape
    high, wide = h - k + 1, w - k + 1
    rows = max(n for n in range(1, k) if high % n == 0)  # no image row is in more than two slabs, if possible
    tall = rows + k - 1
    band = _diagonals(_diagonals(weight, wide, 3), rows, 2)  # [o, c, tall, w, wide, rows]
    band = band.transpose(0, 5, 4, 1, 2, 3).reshape(outputs * rows * wide, -1)
    slabs = jnp.stack([x[:, i : i + high - rows + 1 : rows] for i in range(tall)], axis=1)  # [c, tall, slabs, w, b]
    slabs = slabs.swapaxes(2, 3).reshape(c * tall * w, -1)
    y: Any = product(band, slabs, x.dtype)
    return y.reshape(outputs, rows, wide, -1, b).transpose(0, 3, 1, 2, 4).reshape(outputs, high, wide, b)


def _diagonals(x: Array, count: int, axis: int) -> Array:
    """`count` copies along a new last axis, each one place further along `axis` than the one before, between zeros."""
    pads = lambda n: [(n, count - 1 - n) if i == axis else (0, 0) for i in range(x.ndim)]  # noqa: E731
    return jnp.stack([jnp.pad(x, pads(n)) for n in range(count)], axis=-1)


# In blocks of image rows, for a CPU: patches are computed and used within the cache.


def by_blocks(weight: Array, x: Array) -> Array:
    return _in_blocks(weight.reshape(len(weight), -1), x, weight.shape[-1])


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _in_blocks(matrix: Array, x: Array, k: int) -> Any:
    rows, blocks, columns = _blocks(matrix, x, k)
    block = lambda i: _times(matrix, columns(x, i * rows), x.dtype).reshape(len(matrix), rows, -1, x.shape[-1])  # noqa: E731
    if blocks == 1:
        return block(0)
    y = jax.lax.map(block, jnp.arange(blocks)).swapaxes(0, 1)
    return y.reshape(len(matrix), blocks * rows, *y.shape[3:])


def _in_blocks_backward(k: int, kept: tuple[Array, Array], dy: Array) -> tuple[Array, Array]:
    matrix, x = kept
    rows, blocks, columns = _blocks(matrix, x, k)
    c, _, _, b = x.shape
    wide = dy.shape[2]
    exact = jnp.promote_types(x.dtype, jnp.float32)

    def block(n: Array | int, sums: tuple[Array, Array]) -> tuple[Array, Array]:
        first = n * rows
        d = jax.lax.dynamic_slice_in_dim(dy, first, rows, axis=1).reshape(len(matrix), -1)
        parts = _for_input(matrix, d).reshape(c, k, k, rows, wide, b).astype(exact)
        dx = sums[1]
        for i in range(k):
            row = sum(_shifted(parts[:, i, j], {2: j}, k) for j in range(k))
            before = jax.lax.dynamic_slice_in_dim(dx, first + i, rows, axis=1)
            dx = jax.lax.dynamic_update_slice_in_dim(dx, before + row, first + i, axis=1)
        return sums[0] + _for_weight(matrix, columns(x, first), d), dx

    zeros = jnp.zeros_like(matrix), jnp.zeros(x.shape, exact)
    dw, dx = block(0, zeros) if blocks == 1 else jax.lax.fori_loop(0, blocks, block, zeros)
    return dw, dx.astype(x.dtype)


_in_blocks.defvjp(lambda matrix, x, k: (_in_blocks(matrix, x, k), (matrix, x)), _in_blocks_backward)


def _blocks(matrix: Array, x: Array, k: int) -> tuple[int, int, Callable[[Array, Array | int], Array]]:
    """(rows of a block, blocks, the patches [c k k, rows w b] of the block that starts at a row)."""
    c, h, w, b = x.shape
    high, wide = h - k + 1, w - k + 1
    # Every block reads the weight again, so a block should not be smaller than the weight.
    most = max(_CACHED, matrix.size) // (c * k * k * wide * b)
    rows = max(n for n in range(1, high + 1) if high % n == 0 and n <= max(most, 1))

    def columns(x: Array, first: Array | int) -> Array:
        x = jax.lax.dynamic_slice_in_dim(x, first, rows + k - 1, axis=1) if rows < high else x
        if rows == wide == 1:
            return x.reshape(c * k * k, b)
        # Slices at computed positions: a stack of views would need a selection for every number.
        x = jax.vmap(lambda j: jax.lax.dynamic_slice_in_dim(x, j, wide, axis=2), out_axes=1)(jnp.arange(k))
        x = jax.vmap(lambda i: jax.lax.dynamic_slice_in_dim(x, i, rows, axis=2), out_axes=1)(jnp.arange(k))
        return x.reshape(c * k * k, rows * wide * b)

    return rows, high // rows, columns
