"""Small convolutional networks: convolutions of 5 × 5 with pooling, then dense layers."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.nn import leaky_relu, relu  # PyTorch's default slope, 0.01

from fedtide.kinds import kinds_checked
from fedtide.problems.models import layers
from fedtide.problems.models.base import Compute, Model
from fedtide.types import Params

_KERNEL = 5


@kinds_checked
@functools.cache
def fashion_cnn(
    inputs: tuple[int, ...],
    classes: int,
    channels: tuple[int, ...] = (6, 16),
    hidden: tuple[int, ...] = (120, 84),
    compute: Compute = "float32",
) -> Model:
    """The Fashion-MNIST network of the Fed-CVaR-Avg paper: conv 5×5 (6), pool, conv 5×5 (16), pool, 120, 84, classes.

    The convolutions are padded by 2, so that only pooling shrinks the image; LeakyReLU. 107,786 parameters on 28 × 28.
    """
    return _network(inputs, classes, channels, len(channels), hidden, leaky_relu, compute, lambda i, size: 2)


@kinds_checked
@functools.cache
def lenet5(
    inputs: tuple[int, ...],
    classes: int,
    channels: tuple[int, ...] = (6, 16, 120),
    hidden: tuple[int, ...] = (84,),
    compute: Compute = "float32",
) -> Model:
    """LeNet-5 with max pooling and ReLU: conv 5×5 (6), pool, conv 5×5 (16), pool, conv 5×5 (120), 84, classes.

    Designed for 32 × 32: smaller images are padded by 2 at the first convolution, as 28 × 28 is in the original (61,706
    parameters). A later convolution is padded by 2 where its image is smaller than 5 × 5, so that 8 × 8 works, too.

    Reference: LeCun et al., "Gradient-based learning applied to document recognition", Proc. IEEE 1998.
    """

    def padding(i: int, size: int) -> int:
        return 2 if size < (32 if i == 0 else _KERNEL) else 0

    return _network(inputs, classes, channels, len(channels) - 1, hidden, relu, compute, padding)


@kinds_checked
@functools.cache
def cifar_cnn(
    inputs: tuple[int, ...],
    classes: int,
    channels: tuple[int, ...] = (32, 64),
    hidden: tuple[int, ...] = (2048,),
    compute: Compute = "float32",
) -> Model:
    """The two-convolution network of CA-Fed's code: conv 5×5 (32), pool, conv 5×5 (64), pool, 2048, classes; ReLU.

    A convolution is padded by 2 only where its image is smaller than 5 × 5. 3,353,034 parameters on 32 × 32 × 3; on
    28 × 28 it is the network of that code for handwriting.
    """
    padding = lambda i, size: 2 if size < _KERNEL else 0  # noqa: E731
    return _network(inputs, classes, channels, len(channels), hidden, relu, compute, padding)


def _network(
    inputs: tuple[int, ...],
    classes: int,
    channels: tuple[int, ...],
    pools: int,
    hidden: tuple[int, ...],
    activation: Callable[[Array], Array],
    compute: Compute,
    padding_at: Callable[[int, int], int],
) -> Model:
    """Convolutions, the first `pools` of them followed by pooling, then dense layers."""
    height, width, colours = layers.image_shape(inputs)
    layers.check_classes(classes)
    convolutions, paddings, widest = [], [], 1
    for i, outputs in enumerate(channels):
        padding = padding_at(i, min(height, width))
        height, width = height + 2 * padding - _KERNEL + 1, width + 2 * padding - _KERNEL + 1
        before = channels[i - 1] if i else colours
        convolutions.append((outputs, before, _KERNEL, _KERNEL))
        paddings.append(padding)
        widest = max(widest, before * _KERNEL**2 * height * width)
        if i < pools and min(height, width) > 1:
            height, width = height // 2, width // 2
    widths = (channels[-1] * height * width, *hidden, classes)

    def init(key: Array) -> Params:
        shapes = {f"conv{i + 1}": shape for i, shape in enumerate(convolutions)}
        shapes |= {f"dense{i + 1}": (widths[i + 1], widths[i]) for i in range(len(widths) - 1)}
        keys = jax.random.split(key, len(shapes))
        return {name: layers.uniform_layer(k, shape) for k, (name, shape) in zip(keys, shapes.items(), strict=True)}

    def forward(params: Any, x: Array) -> Array:
        for i, padding in enumerate(paddings):
            layer = params[f"conv{i + 1}"]
            x = layers.convolution(layer, x, padding)
            # Bias and activation are monotone: pooling before them gives the same result.
            x = layers.pool(x) if i < pools and min(x.shape[1:3]) > 1 else x
            x = activation(layers.add_bias(layer, x))
        x = x.reshape(-1, x.shape[-1])
        for i in range(len(hidden)):
            x = activation(layers.dense(params[f"dense{i + 1}"], x))
        return layers.dense(params[f"dense{len(widths) - 1}"], x, jnp.promote_types(x.dtype, jnp.float32))

    return Model(init, layers.on_images(forward, layers.image_shape(inputs), compute, widest))
