"""Time per round: 50 of 100 clients, 60→10 softmax regression, 200 samples each, 5 steps with batch size 32."""

import statistics
import time
from collections.abc import Callable, Sequence
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from common import best_of

import fedtide
from fedtide.problems.classification import classification
from fedtide.problems.models import softmax_regression
from fedtide.simulation import calls, engine
from fedtide.simulation.setup import Setup, batch
from fedtide.work import Steps

CLIENTS, COHORT, SAMPLES, INPUTS, CLASSES, STEPS, BATCH, RIDGE, RATE = 100, 50, 200, 60, 10, 5, 32, 1e-2, 0.1


def data() -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    draw = rng.standard_normal((CLIENTS, SAMPLES, INPUTS)).astype(np.float32)
    labels = (draw @ rng.standard_normal((INPUTS, CLASSES)).astype(np.float32)).argmax(-1)
    return list(zip(draw, labels, strict=True))


def first_segment(
    replicas: int, clients: int = CLIENTS, clock: fedtide.clock.Clock | None = None
) -> tuple[Setup, fedtide.Method]:
    """The federation whose first segment is measured, set up as in `simulate`, with 20,000 samples in total."""
    drawn, each = data(), -(-SAMPLES * CLIENTS // clients)
    several = [tuple(a[:each] for a in drawn[k % CLIENTS]) for k in range(clients)]
    problem = classification(softmax_regression(INPUTS, CLASSES), several, ridge=RIDGE)  # pyright: ignore
    method = fedtide.methods.fedavg(rate=RATE, clients=COHORT, work=Steps(STEPS, BATCH))
    rounds = 50 if jax.default_backend() == "cpu" else 200
    longer = rounds + 1  # so that the evaluation falls outside the measured segment
    setup = Setup(
        problem, fedtide.availability.Always(clients), {"FedAvg": method}, rounds=longer, seeds=replicas,
        evaluate_every=longer, history=0, record_clients=False, chunk=None, clock=clock,
    )  # fmt: skip
    assert setup.plan[0].length == rounds  # one segment, no evaluation in it, as in the loop
    return setup, method


def fedtide_rounds(replicas: int) -> dict[str, float]:
    """Seconds per round and replica, and seconds to compile."""
    return segment_seconds(*first_segment(replicas))


def segment_seconds(setup: Setup, method: fedtide.Method) -> dict[str, float]:
    """Seconds per round and replica of the first segment, and seconds to compile it."""
    run, compiled = compiled_segment(setup, method)
    return {"seconds": best_of(run, repetitions=15) / setup.plan[0].length / len(setup.seed_list), "compile": compiled}


def compiled_segment(setup: Setup, method: fedtide.Method) -> tuple[Callable[[], object], float]:
    """(a function that runs the first segment again, seconds to compile it)."""
    segment, traces = setup.plan[0], setup.traces
    settings, trace = batch([method]), traces.past if setup.timing else traces[segment]
    shape = setup.shape(method, segment, setup.choose_chunk(method))
    carry = engine.start(settings, setup.problem, setup.population, setup.seeds, traces.past, 0, setup.timing)
    carry = engine.spread(carry, setup.devices)
    begun = time.perf_counter()
    fixed = (setup.problem, setup.population, setup.seeds)
    program = engine.run_segment.lower(settings, *fixed, carry, jnp.int32(0), trace, shape, setup.timing).compile()
    compiled = time.perf_counter() - begun

    def run() -> object:
        nonlocal carry
        carry, _ = program(settings, *fixed, carry, jnp.int32(0), trace, setup.timing)
        return carry

    return run, compiled


def checks(repetitions: int = 30) -> list[dict[str, object]]:
    """The cost of checking every decision: the same segment with and without checks, alternating."""
    rows: list[dict[str, object]] = []
    for clients, replicas in ((CLIENTS, 1), (CLIENTS, 10), (100_000, 1)):
        setup, method = first_segment(replicas, clients)
        checked, _ = compiled_segment(setup, method)
        with mock.patch.object(calls, "fault", return_value=jnp.int32(0)):
            jax.clear_caches()  # otherwise the program that was traced before is used
            unchecked, _ = compiled_segment(setup, method)
        pairs = [(best_of(checked, 3), best_of(unchecked, 3)) for _ in range(repetitions)]
        with_, without = (1e3 * min(times) / setup.plan[0].length / replicas for times in zip(*pairs, strict=True))
        ratio = statistics.median(a / b for a, b in pairs)
        row = {"clients": clients, "replicas": replicas, "ms per round": with_, "unchecked": without}
        rows.append(row | {"cost %": 100 * (ratio - 1)})
        jax.clear_caches()
    return rows


def limits() -> dict[str, float]:
    """Lower bounds on a round's work: forward and backward products, and reading each minibatch once."""
    flops = COHORT * STEPS * BATCH * INPUTS * CLASSES * 2 * 2
    return {"flops": flops, "bytes": 4.0 * COHORT * STEPS * BATCH * INPUTS}


def torch_loop(rounds: int, threads: int) -> float:
    """Seconds per round of a straightforward loop: a module, an optimiser, one client after the other."""
    import torch

    torch.set_num_threads(threads)
    clients = [(torch.tensor(x), torch.tensor(y)) for x, y in data()]
    model = torch.nn.Linear(INPUTS, CLASSES)
    loss_of = torch.nn.CrossEntropyLoss()
    current = {k: v.clone() for k, v in model.state_dict().items()}
    rng = np.random.default_rng(0)

    def one_round() -> None:
        total = {k: torch.zeros_like(v) for k, v in current.items()}
        for k in rng.choice(CLIENTS, COHORT, replace=False):
            x, y = clients[k]
            model.load_state_dict(current)
            optimiser = torch.optim.SGD(model.parameters(), lr=RATE, weight_decay=RIDGE)
            for _ in range(STEPS):
                index = torch.randint(0, SAMPLES, (BATCH,))
                optimiser.zero_grad()
                loss_of(model(x[index]), y[index]).backward()
                optimiser.step()
            for name, value in model.state_dict().items():
                total[name] += value / COHORT
        current.update(total)

    one_round()
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        one_round()
        times.append(time.perf_counter() - begun)
    return min(times)


def measure(
    machine: dict[str, object], replicas: Sequence[int] = (1, 10), torch: bool = True
) -> list[dict[str, object]]:
    """One row per program, in one run; ratios are relative to the faster PyTorch loop."""
    rows: list[dict[str, object]] = []
    loop = None
    if torch:
        loops = {threads: torch_loop(10, threads) for threads in (1, 2)}
        loop = min(loops.values())
        for threads, seconds in loops.items():
            name = f"PyTorch loop, {threads} threads"
            rows.append({"program": name, "ms per round": 1e3 * seconds, "ratio": loop / seconds})
    least = limits()
    for count in replicas:
        measured = fedtide_rounds(count)
        seconds = measured["seconds"]
        row = {"program": f"fedtide, {count} replicas", "ms per round": 1e3 * seconds}
        if loop is not None:
            row["ratio"] = loop / seconds
        row |= {
            "compile s": measured["compile"],
            "MFLOP": least["flops"] / 1e6,
            "MB": least["bytes"] / 1e6,
            "% of product rate": 100 * least["flops"] / seconds / 1e9 / float(machine["product_gflops"]),  # pyright: ignore
            "% of copy rate": 100 * least["bytes"] / seconds / 1e9 / float(machine["copy_gbytes"]),  # pyright: ignore
        }
        rows.append(row)
    jax.clear_caches()
    return rows
