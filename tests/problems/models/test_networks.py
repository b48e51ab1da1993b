"""The networks are what they are said to be, and their convolutions are convolutions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from fedtide.errors import FedtideError
from fedtide.problems.models import MODELS, cifar_cnn, fashion_cnn, lenet5, mlp, resnet9
from fedtide.problems.models.layers import group_norm
from fedtide.problems.models.products import by_bands, by_blocks, by_patches

SMALL = {
    "fashion_cnn": lambda **more: fashion_cnn((8, 8), 3, channels=(2, 3), hidden=(5,), **more),
    "lenet5": lambda **more: lenet5((8, 8), 3, channels=(2, 3, 4), hidden=(5,), **more),
    "cifar_cnn": lambda **more: cifar_cnn((8, 8, 3), 3, channels=(2, 3), hidden=(5,), **more),
    "resnet9": lambda **more: resnet9((8, 8, 3), 3, width=2, **more),
}
# ResNet-9 takes longer to compile than all others together.
QUICK = [pytest.param(name, marks=pytest.mark.slow if name == "resnet9" else ()) for name in SMALL]
# All have their layers from one place.
QUICKER = [pytest.param(name, marks=() if name == "cifar_cnn" else pytest.mark.slow) for name in SMALL]
SHAPES = {"fashion_cnn": (8, 8), "lenet5": (8, 8), "cifar_cnn": (8, 8, 3), "resnet9": (8, 8, 3)}


def inputs(name: str, count: int = 4) -> np.ndarray:
    return np.random.default_rng([0]).random((count, *SHAPES[name])).astype(np.float32)


def conv(layer, x, padding):
    """A convolution by JAX's own primitive: x [b, h, w, c]."""
    weight = jnp.transpose(layer["weight"], (2, 3, 1, 0))
    y = jax.lax.conv_general_dilated(
        x, weight, (1, 1), [(padding, padding)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC"),
        precision=jax.lax.Precision.HIGHEST,
    )  # fmt: skip
    return y + layer["bias"] if "bias" in layer else y


def pooled(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def flat(x):
    return jnp.transpose(x, (0, 3, 1, 2)).reshape(len(x), -1)


def dense(layer, x):
    return x @ layer["weight"].T + layer["bias"]


def norm(layer, x):
    b, h, w, c = x.shape
    groups = np.gcd(32, c)
    y = x.reshape(b, h * w, groups, -1)
    y = (y - y.mean((1, 3), keepdims=True)) / jnp.sqrt(y.var((1, 3), keepdims=True) + 1e-5)
    return y.reshape(b, h, w, c) * layer["weight"] + layer["bias"]


def reference(name: str, p, x):
    """The same network, written plainly."""
    x = x if x.ndim == 4 else x[..., None]
    relu, leaky = jax.nn.relu, lambda v: jnp.where(v >= 0, v, 0.01 * v)
    if name == "fashion_cnn":
        x = pooled(leaky(conv(p["conv1"], x, 2)))
        x = pooled(leaky(conv(p["conv2"], x, 2)))
        return dense(p["dense2"], leaky(dense(p["dense1"], flat(x))))
    if name == "lenet5":  # 8 × 8: padded by 2, as is a later image smaller than 5 × 5
        x = pooled(relu(conv(p["conv1"], x, 2)))
        x = pooled(relu(conv(p["conv2"], x, 2)))
        x = relu(conv(p["conv3"], x, 2))
        return dense(p["dense2"], relu(dense(p["dense1"], flat(x))))
    if name == "cifar_cnn":
        x = pooled(relu(conv(p["conv1"], x, 0)))
        x = pooled(relu(conv(p["conv2"], x, 2)))
        return dense(p["dense2"], relu(dense(p["dense1"], flat(x))))

    def layer(key, x):
        return norm(p[key]["norm"], conv(p[key]["conv"], x, 1))

    x = pooled(relu(layer("layer1", relu(layer("prep", x)))))
    x = x + relu(layer("residual1b", relu(layer("residual1a", x))))
    x = pooled(relu(layer("layer3", pooled(relu(layer("layer2", x))))))
    x = x + relu(layer("residual3b", relu(layer("residual3a", x))))
    return dense(p["dense"], x.max((1, 2)))


@pytest.mark.parametrize("name", QUICK)
def test_outputs_and_gradients_are_those_of_plain_convolutions(name):
    model, x = SMALL[name](), inputs(name)
    params = model.init(jax.random.key(1))
    y = jnp.arange(len(x)) % 3

    def loss(apply):
        return jax.jit(jax.value_and_grad(lambda p: -jax.nn.log_softmax(apply(p, x))[jnp.arange(len(x)), y].mean()))

    ours, theirs = loss(model.apply)(params), loss(lambda p, x: reference(name, p, x))(params)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5)
    np.testing.assert_allclose(ravel_pytree(ours[1])[0], ravel_pytree(theirs[1])[0], rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize("way", [by_bands, by_blocks, by_patches])
@pytest.mark.parametrize(("size", "k"), [((10, 9), 5), ((7, 8), 3)])
def test_every_way_to_convolve_has_the_values_and_the_derivatives_of_a_convolution(float64, way, size, k):
    rng = np.random.default_rng(0)
    weight, x, weights = (rng.normal(size=s) for s in ((3, 2, k, k), (2, *size, 4), (3, *(n - k + 1 for n in size), 4)))

    def primitive(weight, x):
        return jax.lax.conv_general_dilated(x, weight, (1, 1), "VALID", dimension_numbers=("CHWN", "OIHW", "CHWN"))

    def scored(conv):
        return jax.value_and_grad(lambda weight, x: (weights * conv(weight, x)).sum(), (0, 1))(weight, x)

    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11), scored(way), scored(primitive))


@pytest.mark.parametrize("name", QUICKER)
def test_clients_at_once_are_clients_one_by_one_without_a_convolution(name):
    model, x = SMALL[name](), inputs(name, 6).reshape(3, 2, *SHAPES[name])
    params = jax.vmap(model.init)(jax.random.split(jax.random.key(0), 3))
    gradient = jax.vmap(jax.grad(lambda p, x: (model.apply(p, x) ** 2).sum()))
    at_once = jax.jit(gradient)(params, x)
    for i in range(3):
        one = jax.jit(gradient)(*jax.tree.map(lambda a, i=i: a[i : i + 1], (params, x)))
        for a, b in zip(jax.tree.leaves(at_once), jax.tree.leaves(one), strict=True):
            np.testing.assert_allclose(a[i], b[0], rtol=1e-4, atol=1e-5)
    assert "conv_general_dilated" not in str(jax.make_jaxpr(gradient)(params, x))


@pytest.mark.parametrize(
    ("build", "shape", "count"),
    [(lenet5, (28, 28), 61_706), (fashion_cnn, (28, 28), 107_786), (mlp, (28, 28), 118_282),
     (cifar_cnn, (32, 32, 3), 3_353_034), (resnet9, (32, 32, 3), 6_573_130)],
)  # fmt: skip
def test_parameters_are_as_many_as_published(build, shape, count):
    params = jax.eval_shape(build(shape, 10).init, jax.random.key(0))
    assert sum(p.size for p in jax.tree.leaves(params)) == count


@pytest.mark.parametrize("name", QUICK)
def test_bfloat16_is_close_and_keeps_parameters_and_logits_in_float32(name):
    exact, fast, x = SMALL[name](), SMALL[name](compute="bfloat16"), inputs(name)
    params = fast.init(jax.random.key(1))
    assert {p.dtype for p in jax.tree.leaves(params)} == {jnp.dtype("float32")}
    a, b = (jax.jit(model.apply)(params, x) for model in (exact, fast))
    assert b.dtype == jnp.float32
    assert np.abs(a - b).max() < 0.05 * max(1.0, float(np.abs(a).max()))
    gradient = jax.eval_shape(jax.grad(lambda p: fast.apply(p, x).sum()), params)
    assert {g.dtype for g in jax.tree.leaves(gradient)} == {jnp.dtype("float32")}


def test_bytes_are_fractions_of_255():
    image = np.random.default_rng([0]).integers(0, 256, (3, 8, 8), np.uint8)
    for model in (MODELS["softmax_regression"]((8, 8), 3), mlp((8, 8), 3, hidden=(4,)), SMALL["lenet5"]()):
        params = jax.tree.map(lambda p: p + 0.01, model.init(jax.random.key(0)))
        np.testing.assert_allclose(
            model.apply(params, image), model.apply(params, (image / 255).astype(np.float32)), rtol=1e-5
        )


def test_what_does_not_fit_is_refused_in_one_line():
    with pytest.raises(FedtideError, match="inputs"):
        lenet5((64,), 10)
    with pytest.raises(FedtideError, match="compute"):
        lenet5((28, 28), 10, compute="float16")  # pyright: ignore[reportArgumentType]
    with pytest.raises(FedtideError, match="classes"):
        resnet9((32, 32, 3), 1)


def test_the_normalisation_has_the_derivative_of_its_definition(float64):
    rng = np.random.default_rng(3)
    x = jnp.asarray(5 + rng.standard_normal((2, 3, 5, 64)))  # two channels in each of 32 groups
    layer = {name: jnp.asarray(rng.standard_normal(64)) for name in ("weight", "bias")}
    pull = jnp.asarray(rng.standard_normal(x.shape))

    def ours(layer, x):
        return group_norm(layer, x.transpose(3, 1, 2, 0), 32).transpose(3, 1, 2, 0)

    def both(f):
        y, back = jax.vjp(f, layer, x)
        return jax.tree.leaves((y, back(pull)))

    for got, expected in zip(*jax.jit(lambda: (both(ours), both(norm)))(), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-10)
