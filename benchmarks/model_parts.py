"""Where a network's time is spent: passes, layers, other implementations of convolution, a device trace of a round."""

import collections
import gzip
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import models
from common import best_of, print_table
from models import COLOUR, GREY, Case

from fedtide.problems.models import layers, resnet, small_cnn

lax = jax.lax


def show(on_gpu: bool) -> None:
    """Prints all tables, the most informative first."""
    lenet, residual, cifar = (
        Case("lenet5", GREY, 32),
        Case("resnet9", COLOUR, 16, "bfloat16"),
        Case("cifar_cnn", COLOUR, 32),
    )
    if on_gpu:
        for case in (lenet, residual, cifar):
            print_table(f"{case.name}: kernels of the engine's rounds, µs per round", _trace(case))
    else:
        lenet, cifar = lenet._replace(cohort=4), cifar._replace(cohort=2)
    for case in (lenet, residual) if on_gpu else (lenet, cifar):
        print_table(f"{case.name}: one step of local training, ms", _passes(case))
        print_table(f"{case.name}: one step with other implementations of convolution, ms", _whole(case))
        print_table(f"{case.name}: parts of a step, ms", _parts(case))
        print(f"\n{case.name}: implementations of convolution, forward and backward with both gradients, ms")
        _ways(case)


def _seconds(f: Callable[..., Any], *args: Any, turns: int | None = None) -> float:
    """Seconds of f, repeated inside one program, so that the cost of starting a program is not included."""
    turns = turns or (20 if jax.default_backend() == "gpu" else 2)

    @jax.jit
    def repeated(*args: Any) -> Any:
        def turn(_: Any, s: jax.Array) -> jax.Array:
            # The first argument depends on the previous turn, and all results count as used.
            first = jax.tree.map(lambda a: a + s.astype(a.dtype), args[0])
            out = lax.optimization_barrier(f(first, *args[1:]))
            return jax.tree.leaves(out)[0].ravel()[0].astype(jnp.float32) * 1e-30

        return lax.fori_loop(0, turns, turn, jnp.float32(0))

    return best_of(lambda: repeated(*args), 4) / turns


def _inputs(case: Case) -> tuple[Any, Any, Any]:
    """(parameters of every client, their images, their classes)"""
    model = case.build()
    params = jax.vmap(model.init)(jax.random.split(jax.random.key(0), case.cohort))
    shape = (case.cohort, case.batch, *case.inputs)
    x = jax.random.randint(jax.random.key(1), shape, 0, 256).astype(jnp.uint8)
    return params, x, jax.random.randint(jax.random.key(2), shape[:2], 0, models.CLASSES)


def _loss(case: Case) -> Callable[..., Any]:
    model = case.build()

    def loss(params: Any, x: Any, y: Any) -> Any:
        logits = model.apply(params, x).T
        return (jax.nn.logsumexp(logits, 0) - jnp.where(y == jnp.arange(len(logits))[:, None], logits, 0).sum(0)).mean()

    return loss


def _passes(case: Case) -> list[dict[str, object]]:
    loss, inputs = _loss(case), _inputs(case)
    work = models.flops(case) / case.steps
    both = _seconds(jax.vmap(jax.grad(loss)), *inputs)
    return [
        {"pass": "forward", "ms": 1e3 * _seconds(jax.vmap(case.build().apply), *inputs[:2])},
        {"pass": "forward, backward", "ms": 1e3 * both, "TFLOP/s": work / both / 1e12},
    ]


def _convolutions(case: Case) -> list[tuple[int, int, int, int, int]]:
    """(channels in, out, kernel, image, padding)"""
    return {
        "lenet5": [(1, 6, 5, 28, 2), (6, 16, 5, 14, 0)],
        "cifar_cnn": [(3, 32, 5, 32, 0), (32, 64, 5, 14, 0)],
        "resnet9": [
            (3, 64, 3, 32, 1), (64, 128, 3, 32, 1), (128, 128, 3, 16, 1), (128, 256, 3, 16, 1), (256, 512, 3, 8, 1),
            (512, 512, 3, 4, 1),
        ],
    }[case.model]  # fmt: skip


def _dtype(case: Case) -> Any:
    return jnp.bfloat16 if case.compute == "bfloat16" else jnp.float32


def _conv_inputs(case: Case, sizes: tuple[int, ...]) -> tuple[Any, Any]:
    before, after, k, size, _ = sizes
    w = jax.random.normal(jax.random.key(0), (case.cohort, after, before, k, k)) / (before * k * k) ** 0.5
    x = jax.random.normal(jax.random.key(1), (case.cohort, before, size, size, case.batch), _dtype(case))
    return w, x


def _both(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Output and both gradients of f(w, x), for every client."""

    def one(w: Any, x: Any) -> Any:
        y, pull = jax.vjp(f, w, x)
        return y, pull(y)

    return jax.vmap(one)


def _parts(case: Case) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for sizes in _convolutions(case):
        before, after, k, size, padding = sizes
        w, x = _conv_inputs(case, sizes)
        out = size + 2 * padding - k + 1
        n = out * out * case.batch
        work = 2e-9 * case.cohort * after * before * k * k * n
        columns = jax.random.normal(jax.random.key(2), (case.cohort, before * k * k, n), x.dtype)
        y = jax.random.normal(jax.random.key(3), (case.cohort, after, out, out, case.batch), x.dtype)
        flat, matrix = y.reshape(case.cohort, after, n), w.reshape(case.cohort, after, -1)
        padded = jnp.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding), (0, 0)))
        unpatch = jax.vmap(lambda d: jax.linear_transpose(lambda x: _one_stage(x, k), padded[0])(d)[0])  # noqa: B023
        row: dict[str, object] = {"convolution": f"{before}→{after} {k}×{k} on {size}×{size}", "GFLOP": work}
        row["patches"] = 1e3 * _seconds(jax.vmap(lambda x: _one_stage(x, k)), padded)  # noqa: B023
        row["W P"] = 1e3 * _seconds(jax.vmap(lambda w, x: layers.product(w, x, x.dtype)), matrix, columns)
        row["dY Pᵀ"] = 1e3 * _seconds(
            jax.vmap(lambda d, x: jnp.matmul(d, x.T, preferred_element_type=jnp.float32)), flat, columns
        )
        row["Wᵀ dY"] = 1e3 * _seconds(jax.vmap(lambda w, d: jnp.matmul(w.astype(d.dtype).T, d)), matrix, flat)
        row["sum of patches"] = 1e3 * _seconds(unpatch, columns.reshape(case.cohort, -1, out, out, case.batch))
        if out > 1:
            row["pool"] = 1e3 * _seconds(jax.vmap(lambda x: jax.vjp(layers.pool, x)[0]), y)
            row["pool both"] = 1e3 * _seconds(_both(lambda w, x: layers.pool(x) + w), y[:, :1, :1, :1, :1], y)
        if case.model == "resnet9":
            norm = {"weight": jnp.ones((case.cohort, after)), "bias": jnp.ones((case.cohort, after))}
            row["norm"] = 1e3 * _seconds(jax.vmap(lambda p, x: layers.group_norm(p, x, 32)), norm, y)
            row["norm both"] = 1e3 * _seconds(_both(lambda p, x: layers.group_norm(p, x, 32)), norm, y)
        rows.append(row)
    return rows


# Other implementations of convolution; all take x [c, h, w, b] and w [o, c, k, k], and return [o, h, w, b].


def _padded(x: Any, padding: int) -> Any:
    return jnp.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))


def _shifts(x: Any, k: int) -> list[Any]:
    high, wide = x.shape[1] - k + 1, x.shape[2] - k + 1
    return [x[:, i : i + high, j : j + wide] for i in range(k) for j in range(k)]


def _one_stage(x: Any, k: int) -> Any:
    shifts = _shifts(x, k)
    return jnp.stack(shifts, axis=1).reshape(-1, *shifts[0].shape[1:])


def _times(w: Any, columns: Any, order: tuple[int, ...] = (0, 1, 2, 3)) -> Any:
    y = layers.product(w.transpose(order).reshape(len(w), -1), columns.reshape(len(columns), -1), columns.dtype)
    return y.reshape(len(w), *columns.shape[1:])


def now(w: Any, x: Any, padding: int) -> Any:
    return layers.convolution({"weight": w}, x, padding)


def one_stage(w: Any, x: Any, padding: int) -> Any:
    """All windows in one stack, differentiated by JAX."""
    return _times(w, _one_stage(_padded(x, padding), w.shape[-1]))


def taps_first(w: Any, x: Any, padding: int) -> Any:
    """Patches as [k, k, c]: complete images one after the other."""
    return _times(w, jnp.concatenate(_shifts(_padded(x, padding), w.shape[-1])), (0, 2, 3, 1))


def again(w: Any, x: Any, padding: int) -> Any:
    """Patches are recomputed for the backward pass instead of stored."""
    return jax.checkpoint(lambda w, x: one_stage(w, x, padding))(w, x)


def sum_of_products(w: Any, x: Any, padding: int) -> Any:
    """The sum of k × k products, one for each position of the kernel."""
    k = w.shape[-1]
    x = _padded(x, padding)
    y: Any = 0
    for place, shift in enumerate(_shifts(x, k)):
        i, j = divmod(place, k)
        y += layers.product(w[:, :, i, j], shift.reshape(len(shift), -1), jnp.float32)
    return y.astype(x.dtype).reshape(len(w), x.shape[1] - k + 1, x.shape[2] - k + 1, -1)


def sum_of_rows(w: Any, x: Any, padding: int) -> Any:
    """The sum of k products, one for each row of the kernel, with patches of k columns."""
    k = w.shape[-1]
    x = _padded(x, padding)
    c, h, wide, b = x.shape
    high, wide = h - k + 1, wide - k + 1
    x = jnp.stack([x[:, :, j : j + wide] for j in range(k)], axis=1).reshape(c * k, h, wide, b)
    y: Any = 0
    for i in range(k):
        y += layers.product(w[:, :, i].reshape(len(w), -1), x[:, i : i + high].reshape(c * k, -1), jnp.float32)
    return y.astype(x.dtype).reshape(len(w), high, wide, b)


def flipped(w: Any, x: Any, padding: int) -> Any:
    """The image's gradient is a convolution of the output's gradient instead of a sum of patches."""
    k = w.shape[-1]

    @jax.custom_vjp
    def conv(w: Any, x: Any) -> Any:
        return forward(w, x)[0]

    def forward(w: Any, x: Any) -> Any:
        columns = _one_stage(_padded(x, padding), k)
        return _times(w, columns), (w, columns)

    def backward(kept: Any, dy: Any) -> Any:
        w, columns = kept
        dw = jnp.matmul(
            dy.reshape(len(dy), -1), columns.reshape(len(columns), -1).T, preferred_element_type=w.dtype
        ).reshape(w.shape)
        around = _one_stage(_padded(dy, k - 1 - padding), k)
        return dw, _times(w[:, :, ::-1, ::-1].transpose(1, 0, 2, 3), around)

    conv.defvjp(forward, backward)
    return conv(w, x)


def channels_last(w: Any, x: Any, padding: int) -> Any:
    """[b, h, w, c] × [c, o], with the transpositions that this comparison needs."""
    k = w.shape[-1]
    x = _padded(x, padding).transpose(3, 1, 2, 0)
    b, h, wide, _ = x.shape
    high, wide = h - k + 1, wide - k + 1
    columns = jnp.concatenate([x[:, i : i + high, j : j + wide] for i in range(k) for j in range(k)], axis=-1)
    matrix = w.transpose(2, 3, 1, 0).reshape(-1, len(w)).astype(x.dtype)
    y = (columns.reshape(-1, columns.shape[-1]) @ matrix).reshape(b, high, wide, len(w))
    return y.transpose(3, 1, 2, 0)


def library_patches(w: Any, x: Any, padding: int) -> Any:
    """JAX's own patches, which are a convolution with a unit matrix."""
    pads = ((padding, padding), (padding, padding))
    k = w.shape[-1]
    numbers = ("CHWN", "OIHW", "CHWN")
    return _times(w, lax.conv_general_dilated_patches(x, (k, k), (1, 1), pads, dimension_numbers=numbers))


def grouped(w: Any, x: Any, padding: int) -> Any:
    """XLA's convolution, which is a grouped one over clients."""
    pads = ((padding, padding), (padding, padding))
    numbers = ("CHWN", "OIHW", "CHWN")
    return lax.conv_general_dilated(x, w.astype(x.dtype), (1, 1), pads, dimension_numbers=numbers)


def grouped_channels_last(w: Any, x: Any, padding: int) -> Any:
    pads = ((padding, padding), (padding, padding))
    x, w = x.transpose(3, 1, 2, 0), w.transpose(2, 3, 1, 0).astype(x.dtype)
    y = lax.conv_general_dilated(x, w, (1, 1), pads, dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y.transpose(3, 1, 2, 0)


WAYS: list[Callable[[Any, Any, int], Any]] = [
    now, one_stage, taps_first, again, sum_of_rows, sum_of_products, flipped, channels_last, library_patches, grouped,
    grouped_channels_last,
]  # fmt: skip
WHOLE = [now, one_stage, taps_first, again, sum_of_rows, sum_of_products, flipped]


def _ways(case: Case) -> None:
    for way in WAYS:
        row: dict[str, object] = {"way": way.__name__}
        for sizes in _convolutions(case)[1::2]:
            before, after, _, size, padding = sizes
            name = f"{before}→{after} on {size}"
            try:
                f = lambda w, x: way(w, x, padding)  # noqa: B023, E731
                row[name] = 1e3 * _seconds(_both(f), *_conv_inputs(case, sizes))
            except Exception as error:  # an implementation that this device does not support must not end the table
                row[name] = type(error).__name__
        if all(isinstance(v, float) for v in list(row.values())[1:]):
            row["sum"] = sum(v for v in row.values() if isinstance(v, float))
        print("  " + str({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}), flush=True)
        jax.clear_caches()


def _whole(case: Case) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    inputs = _inputs(case)
    places = (small_cnn, resnet)
    own = layers.convolution
    try:
        for way in WHOLE:
            for place in places:
                place.convolution = lambda layer, x, padding=0: (  # pyright: ignore[reportAttributeAccessIssue]
                    own(layer, x, padding)
                    if way is now or x.shape[1] + 2 * padding == layer["weight"].shape[-1]  # noqa: B023
                    else way(layer["weight"], x, padding)  # noqa: B023
                )
            seconds = _seconds(jax.vmap(jax.grad(_loss(case))), *inputs)
            rows.append({"way": way.__name__, "ms": 1e3 * seconds, "ms of 5 steps": 5e3 * seconds})
            jax.clear_caches()
    finally:
        for place in places:
            place.convolution = own  # pyright: ignore[reportAttributeAccessIssue]
    return rows


def _trace(case: Case, most: int = 30) -> list[dict[str, object]]:
    """The kernels that ran on the device during the engine's rounds, the longest first."""
    program = models.compiled(case)
    jax.block_until_ready(program.run())
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(program.run())
        (file,) = Path(folder).rglob("*.trace.json.gz")
        with gzip.open(file) as opened:
            events = json.load(opened)["traceEvents"]
    device = {
        e["pid"]
        for e in events
        if e.get("name") == "process_name" and "device:GPU" in e.get("args", {}).get("name", "")
    }
    streams = {
        (e["pid"], e["tid"])
        for e in events
        if e.get("name") == "thread_name" and e["pid"] in device and "Stream" in e["args"].get("name", "")
    }
    total: dict[str, float] = collections.defaultdict(float)
    count: dict[str, int] = collections.defaultdict(int)
    for e in events:
        if e.get("ph") == "X" and (e["pid"], e["tid"]) in streams:
            total[e["name"]] += e["dur"]
            count[e["name"]] += 1
    rows: list[dict[str, object]] = [
        {"kernel": name[:90], "times": count[name] / program.rounds, "µs": total[name] / program.rounds}
        for name in sorted(total, key=lambda name: -total[name])[:most]
    ]
    everything = {"times": sum(count.values()) / program.rounds, "µs": sum(total.values()) / program.rounds}
    return [*rows, {"kernel": "all", **everything}]
