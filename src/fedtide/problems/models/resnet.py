"""Residual networks."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.nn import relu

from fedtide.errors import require
from fedtide.kinds import kinds_checked
from fedtide.problems.models import layers
from fedtide.problems.models.base import Compute, Model
from fedtide.types import Params

_GROUPS = 32


@kinds_checked
@functools.cache
def resnet9(inputs: tuple[int, ...], classes: int, width: int = 64, compute: Compute = "float32") -> Model:
    """ResNet-9: 64; 128, pool, residual(128, 128); 256, pool; 512, pool, residual(512, 512); maximum; classes.

    Convolutions of 3 × 3 without bias, each followed by a normalisation and ReLU. Published with batch normalisation,
    for whose running statistics there is no established average over clients: here with GroupNorm of 32 groups, which
    has no such statistics. `width` is the first layer's 64. 6,573,130 parameters on 32 × 32 × 3 with 10 classes. Images
    of 8 × 8 or more.

    Reference: Page, "How to train your ResNet", 2018.
    """
    shape = layers.image_shape(inputs)
    layers.check_classes(classes)
    require(min(shape[:2]) >= 8, "inputs", inputs, "8 × 8 or more")
    require(width >= 1, "width", width, "1 or more")
    sizes = {
        "prep": (width, shape[2]),
        "layer1": (2 * width, width),
        "residual1a": (2 * width, 2 * width),
        "residual1b": (2 * width, 2 * width),
        "layer2": (4 * width, 2 * width),
        "layer3": (8 * width, 4 * width),
        "residual3a": (8 * width, 8 * width),
        "residual3b": (8 * width, 8 * width),
    }

    def init(key: Array) -> Params:
        keys = jax.random.split(key, len(sizes) + 1)
        params = {}
        for k, (name, (outputs, before)) in zip(keys, sizes.items(), strict=False):
            norm = {"weight": jnp.ones(outputs), "bias": jnp.zeros(outputs)}
            params[name] = {"conv": layers.uniform_layer(k, (outputs, before, 3, 3), bias=False), "norm": norm}
        return {**params, "dense": layers.uniform_layer(keys[-1], (classes, 8 * width))}

    def forward(params: Any, x: Array) -> Array:
        def layer(name: str, x: Array) -> Array:
            own = params[name]
            return layers.group_norm(
                own["norm"], layers.convolution(own["conv"], x, 1), math.gcd(_GROUPS, sizes[name][0])
            )

        x = relu(layer("prep", x))
        x = relu(layers.pool(layer("layer1", x)))  # ReLU is monotone: pooling before it gives the same result
        x = x + relu(layer("residual1b", relu(layer("residual1a", x))))
        x = relu(layers.pool(layer("layer2", x)))
        x = relu(layers.pool(layer("layer3", x)))
        x = x + relu(layer("residual3b", relu(layer("residual3a", x))))
        return layers.dense(params["dense"], x.max(axis=(1, 2)), jnp.promote_types(x.dtype, jnp.float32))

    widest = 9 * width * shape[0] * shape[1]
    return Model(init, layers.on_images(forward, shape, compute, widest))
