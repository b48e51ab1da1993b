"""Time per round of the networks: 10 of 30 clients, 5 steps, compared with a PyTorch loop and the peak matrix rate."""

import os
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from common import best_of

import fedtide
from fedtide.problems.classification import classification
from fedtide.problems.models import MODELS, Model
from fedtide.simulation import engine
from fedtide.simulation.setup import Setup, batch
from fedtide.simulation.traces import Segment
from fedtide.work import Steps

CLIENTS, COHORT, SAMPLES, CLASSES, RATE = 30, 10, 200, 10, 0.01


class Case(NamedTuple):
    """One network and its local training."""

    model: str
    inputs: tuple[int, ...]
    batch: int
    compute: str = "float32"
    steps: int = 5
    cohort: int = COHORT
    replicas: int = 1

    @property
    def name(self) -> str:
        more = f", {self.replicas} replicas" if self.replicas > 1 else ""
        return f"{self.model} {self.compute}, {self.cohort} × {self.steps} × {self.batch}{more}"

    def build(self) -> Model:
        kind = {} if self.model == "mlp" else {"compute": self.compute}
        return MODELS[self.model](self.inputs, CLASSES, **kind)


GREY, COLOUR = (28, 28), (32, 32, 3)
ON_GPU = [
    Case("mlp", GREY, 32),
    Case("lenet5", GREY, 32),
    Case("lenet5", GREY, 32, replicas=20),
    Case("fashion_cnn", GREY, 128, replicas=20),
    Case("cifar_cnn", COLOUR, 32),
    Case("resnet9", COLOUR, 16),
    Case("resnet9", COLOUR, 16, "bfloat16"),
    Case("resnet9", COLOUR, 16, "bfloat16", replicas=5),
]
ON_CPU = [
    Case("mlp", GREY, 32),
    Case("lenet5", GREY, 32),
    Case("fashion_cnn", GREY, 32),
    Case("cifar_cnn", COLOUR, 32, cohort=4),
    Case("resnet9", COLOUR, 16, steps=2, cohort=2),
]
NAMES = sorted({case.model for case in (*ON_GPU, *ON_CPU)})


def data(case: Case) -> list[tuple[np.ndarray, np.ndarray]]:
    """Random bytes in the form of images."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (CLIENTS, SAMPLES, *case.inputs), dtype=np.uint8)
    return list(zip(x, rng.integers(0, CLASSES, (CLIENTS, SAMPLES)), strict=True))


class Program(NamedTuple):
    """A compiled segment that can be run repeatedly."""

    run: Callable[[], Any]
    rounds: int  # of all replicas
    compile: float  # seconds
    text: str  # the compiled program in HLO


def compiled(case: Case, chunk: int | None = None) -> Program:
    """The segment that `simulate` runs, without an evaluation."""
    problem = classification(case.build(), data(case), ridge=0.0)
    method = fedtide.methods.fedavg(rate=RATE, clients=case.cohort, work=Steps(case.steps, case.batch))
    rounds = 50 if jax.default_backend() == "gpu" else 4
    options = {"history": 0, "record_clients": False, "chunk": chunk}
    setup = Setup(
        problem, fedtide.availability.Always(CLIENTS), {"FedAvg": method}, rounds=rounds, seeds=case.replicas,
        evaluate_every=rounds, **options,
    )  # fmt: skip
    traces = setup.traces
    settings, trace = batch([method]), traces[setup.plan[0]][:, :rounds]
    shape = setup.shape(method, Segment(0, 1, rounds, evaluates=False), setup.choose_chunk(method))
    carry = engine.start(settings, setup.problem, setup.population, setup.seeds, traces.past, 0)
    carry = engine.spread(carry, setup.devices)
    begun = time.perf_counter()
    fixed = (setup.problem, setup.population, setup.seeds)
    program = engine.run_segment.lower(settings, *fixed, carry, jnp.int32(0), trace, shape).compile()
    seconds = time.perf_counter() - begun

    def run() -> Any:
        nonlocal carry
        carry, _ = program(settings, *fixed, carry, jnp.int32(0), trace)
        return carry

    return Program(run, rounds * case.replicas, seconds, program.as_text() or "")


def flops(case: Case) -> float:
    """Operations of a round: forward, and twice as many backward, except for the first layer's input gradient."""
    model = case.build()
    x = jax.ShapeDtypeStruct((case.batch, *case.inputs), jnp.uint8)
    jaxpr = jax.make_jaxpr(model.apply)(jax.eval_shape(model.init, jax.random.key(0)), x).jaxpr
    products = _products(jaxpr)
    return case.cohort * case.steps * (3.0 * sum(products) - products[0])


def _products(jaxpr: Any) -> list[float]:
    products = []
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            inner = np.prod([equation.invars[0].aval.shape[i] for i in contracted])
            products.append(2.0 * inner * np.prod(equation.outvars[0].aval.shape))
        times = equation.params.get("length", 1)  # of a loop
        for value in equation.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                products += [times * flops for flops in _products(inner)]
    return products


def peaks() -> dict[str, float]:
    """TFLOP/s of one large product, by precision."""
    n = 8192 if jax.default_backend() == "gpu" else 1024
    rates = {}
    kinds = {"float32": (jnp.float32, "highest"), "float32, default precision": (jnp.float32, None)}
    if jax.default_backend() == "gpu":
        kinds["bfloat16"] = (jnp.bfloat16, None)
    for name, (dtype, precision) in kinds.items():
        a = jax.random.normal(jax.random.key(0), (n, n), dtype)
        product = jax.jit(lambda a, precision=precision: jnp.matmul(a, a, precision=precision))
        rates[name] = 2 * n**3 / best_of(lambda: product(a), 10) / 1e12  # noqa: B023
    return rates


def kernels(text: str) -> str:
    """The numbers of library calls and loops (fusions) that the largest computation of a compiled program starts."""
    counts = []
    for computation in text.split("\n}"):
        calls = computation.count(" custom-call(")
        loops = sum(computation.count(f" {kind}(") for kind in ("fusion", "copy", "transpose", "reduce", "sort"))
        counts.append((calls + loops, calls, loops))
    return "{1} calls + {2} loops".format(*max(counts))


def torch_round(case: Case) -> Callable[[], None]:
    """A round of a straightforward loop, one client after the other."""
    import torch

    clients = [(torch.tensor(x).float() / 255, torch.tensor(y)) for x, y in data(case)]
    clients = [(x[:, None] if x.ndim == 3 else x.permute(0, 3, 1, 2).contiguous(), y) for x, y in clients]
    model = torch_network(case.model)
    loss_of = torch.nn.CrossEntropyLoss()
    current = {k: v.clone() for k, v in model.state_dict().items()}
    rng = np.random.default_rng(0)

    def one_round() -> None:
        total = {k: torch.zeros_like(v) for k, v in current.items()}
        for k in rng.choice(CLIENTS, case.cohort, replace=False):
            x, y = clients[k]
            model.load_state_dict(current)
            optimiser = torch.optim.SGD(model.parameters(), lr=RATE)
            for _ in range(case.steps):
                index = torch.randint(0, SAMPLES, (case.batch,))
                optimiser.zero_grad()
                loss_of(model(x[index]), y[index]).backward()
                optimiser.step()
            for name, value in model.state_dict().items():
                total[name] += value / case.cohort
        current.update(total)

    return one_round


def torch_network(name: str) -> Any:
    """The same network in PyTorch."""
    from torch import nn

    def conv(inputs: int, outputs: int, padding: int, activation: Any) -> list[Any]:
        return [nn.Conv2d(inputs, outputs, 5, padding=padding), activation(), nn.MaxPool2d(2)]

    def normed(inputs: int, outputs: int, *more: Any) -> Any:
        layer = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        return nn.Sequential(layer, nn.GroupNorm(32, outputs), nn.ReLU(), *more)

    class Residual(nn.Module):
        def __init__(self, width: int):
            super().__init__()
            self.inner = nn.Sequential(normed(width, width), normed(width, width))

        def forward(self, x: Any) -> Any:
            return x + self.inner(x)

    leaky, relu, linear = nn.LeakyReLU, nn.ReLU, nn.Linear
    networks: dict[str, Callable[[], list[Any]]] = {
        "mlp": lambda: [nn.Flatten(), linear(784, 128), leaky(), linear(128, 128), leaky(), linear(128, CLASSES)],
        "lenet5": lambda: [
            *conv(1, 6, 2, relu), *conv(6, 16, 0, relu), nn.Conv2d(16, 120, 5), relu(), nn.Flatten(),
            linear(120, 84), relu(), linear(84, CLASSES),
        ],
        "fashion_cnn": lambda: [
            *conv(1, 6, 2, leaky), *conv(6, 16, 2, leaky), nn.Flatten(),
            linear(784, 120), leaky(), linear(120, 84), leaky(), linear(84, CLASSES),
        ],
        "cifar_cnn": lambda: [
            *conv(3, 32, 0, relu), *conv(32, 64, 0, relu), nn.Flatten(),
            linear(1600, 2048), relu(), linear(2048, CLASSES),
        ],
        "resnet9": lambda: [
            normed(3, 64), normed(64, 128, nn.MaxPool2d(2)), Residual(128), normed(128, 256, nn.MaxPool2d(2)),
            normed(256, 512, nn.MaxPool2d(2)), Residual(512), nn.MaxPool2d(4), nn.Flatten(), linear(512, CLASSES),
        ],
    }  # fmt: skip
    return nn.Sequential(*networks[name]())


def measure(
    torch: bool = True, profile: bool = False, only: Sequence[str] | None = None, chunk: int | None = None
) -> list[dict[str, object]]:
    """One row per network. On a CPU, a PyTorch loop with as many threads runs alternately."""
    on_gpu = jax.default_backend() == "gpu"
    peak = peaks()
    print("\nRate of a large product, TFLOP/s: " + ", ".join(f"{name} {rate:.4g}" for name, rate in peak.items()))
    rows = []
    for case in ON_GPU if on_gpu else ON_CPU:
        if only and case.model not in only:
            continue
        work = flops(case)
        program = compiled(case, chunk)
        row: dict[str, object] = {"network": case.name}
        if on_gpu or not torch:
            seconds = best_of(program.run, 10) / program.rounds
        else:
            seconds, loop = _turns(program, torch_round(case))
            row |= {"PyTorch ms": 1e3 * loop, "ratio": loop / seconds}
        rate = work / seconds / 1e12
        most = peak["bfloat16" if case.compute == "bfloat16" else "float32, default precision"]
        row |= {"ms per round": 1e3 * seconds, "GFLOP": work / 1e9, "TFLOP/s": rate, "% of peak": 100 * rate / most}
        row |= {"starts": kernels(program.text), "compile s": program.compile}
        rows.append(row)
        print("  ".join(f"{k}: {v:.4g}" if isinstance(v, float) else f"{k}: {v}" for k, v in row.items()), flush=True)
        del program
        jax.clear_caches()
    if profile:
        import model_parts

        model_parts.show(on_gpu)
    return rows


def _turns(program: Program, loop: Callable[[], None], repetitions: int = 6) -> tuple[float, float]:
    """Seconds per round of both, the fastest of several; CPU time on one core, which other processes do not affect."""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    clock = time.process_time if cores == 1 else time.perf_counter
    torch.set_num_threads(cores)
    jax.block_until_ready(program.run())
    loop()
    ours, theirs = [], []
    for _ in range(repetitions):
        begun = clock()
        jax.block_until_ready(program.run())
        middle = clock()
        loop()
        ours.append((middle - begun) / program.rounds)
        theirs.append(clock() - middle)
    return min(ours), min(theirs)
