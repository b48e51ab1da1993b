"""From a user's arguments to what the engine runs: checked, on the device, with a memory estimate."""

import copy
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from fedtide.availability.base import Process
from fedtide.errors import FedtideError, InvalidInput, flag, require, whole
from fedtide.methods.base import Method, title_of
from fedtide.simulation import engine, memory
from fedtide.simulation.cohorts import capacity_for
from fedtide.simulation.replica import Carry, Replica, Shape, unraveller
from fedtide.simulation.traces import Span, Traces, spans
from fedtide.streams import Purpose, Stream
from fedtide.types import Population

log = logging.getLogger("fedtide")

MOST_ROUNDS, MOST_SEEDS = 10_000_000, 1_000_000  # more cannot be meant
_STRETCH, _GPU_STRETCH = 50, 200  # rounds between two visits of the host, which a GPU waits for
_CACHE = 2**20  # bytes near a CPU core
_RECORD_LIMIT = 50_000_000  # rows of the table of clients that are recorded without being asked for
_TRACE_LIMIT = 256_000_000  # client-rounds of a stretch, all seeds


class Setup:
    """A federation and a schedule, ready to run methods on."""

    def __init__(
        self,
        problem: Any,
        availability: Process,
        methods: Mapping[str, Method],
        *,
        rounds: int,
        seeds: int | Sequence[int],
        evaluate_every: int,
        history: int,
        record_clients: bool | None,
        chunk: int | None,
        skew: bool = True,
    ):
        rounds, history = whole("rounds", rounds, 1, MOST_ROUNDS), whole("history", history, 0, MOST_ROUNDS)
        evaluate_every = whole("evaluate_every", evaluate_every, 1)
        chunk = None if chunk is None else whole("chunk", chunk, 1)
        if record_clients is not None:
            flag("record_clients", record_clients)
        clients = len(problem.sizes)
        require(
            availability.clients == clients,
            "availability.clients", availability.clients, f"{clients}, as the problem's number of clients",
        )  # fmt: skip
        self.seed_list = _seeds(seeds)
        memory.refuse_long_history(history, len(self.seed_list), clients)
        self.seeds = jax.device_put(np.asarray(self.seed_list, np.uint32))
        self.rounds, self.evaluate_every, self.history = rounds, evaluate_every, history
        self.availability, self.chunk = availability, chunk
        self.problem = jax.tree.map(_on_device, problem)
        policies = [m.participation for m in methods.values()]
        # Who selects by loss needs optima only for the measure of how that leans.
        needs_optimum = any(p.needs_optimum and (skew or not p.selects_by_loss) for p in policies)
        self.population = Population(
            importance=_on_device(np.asarray(problem.importance)),
            sizes=_on_device(np.asarray(problem.sizes, np.int32)),
            availability=_vector(availability.availability),  # pyright: ignore[reportAttributeAccessIssue]
            correlation=_vector(availability.correlation),  # pyright: ignore[reportAttributeAccessIssue]
            optimum=_vector(problem.client_optima()) if needs_optimum else None,
            labels=_vector(getattr(problem, "label_counts", None)),
        )
        w = jax.eval_shape(lambda: ravel_pytree(problem.init(jax.random.key(0)))[0])
        if w.dtype != jnp.result_type(float):
            raise FedtideError(f"model: parameters of type {w.dtype}; all must be {jnp.result_type(float)} here")
        self.parameters = w.size
        replicas = len(self.seed_list)
        stretch = _STRETCH if jax.default_backend() == "cpu" else _GPU_STRETCH
        longest = max(1, min(stretch, _TRACE_LIMIT // (clients * replicas)))
        self.plan: list[Span] = list(spans(rounds, evaluate_every, longest))
        if record_clients is None:
            record_clients = len(methods) * replicas * rounds * clients <= _RECORD_LIMIT
            if not record_clients:
                log.info("clients are not recorded one by one: that would be over %s rows", f"{_RECORD_LIMIT:,}")
        self.record_clients = bool(record_clients)
        absent = 0 if availability.availability is None else int((np.asarray(availability.availability) == 0).sum())  # pyright: ignore[reportAttributeAccessIssue]
        if absent:
            log.warning("%d of %d clients are never there: no method can learn from them", absent, clients)
        self.devices = self.sharing(len(jax.devices()))
        self._traces: Traces | None = None

    def sharing(self, devices: int) -> int:
        """As many of the devices as share the seeds evenly; each runs its seeds as it would alone."""
        return max(d for d in range(1, devices + 1) if len(self.seed_list) % d == 0)

    def share(self, seeds: Sequence[int], most: int) -> "Setup":
        """The setup of some of the seeds: same stretches, same capacity for cohorts, so that no number changes."""
        own = copy.copy(self)
        own.seed_list = list(seeds)
        own.seeds = jax.device_put(np.asarray(seeds, np.uint32))
        own.devices = own.sharing(len(jax.devices()))
        own._traces = Traces(jax.tree.map(_on_device, self.availability), own.seeds, self.plan, self.history, most)
        return own

    @property
    def traces(self) -> Traces:
        if self._traces is None:
            self._traces = Traces(jax.tree.map(_on_device, self.availability), self.seeds, self.plan, self.history)
        return self._traces

    def shape(self, method: Method, span: Span, chunk: int | None) -> Shape:
        """What the program of a stretch is compiled for."""
        capacity, query = self._capacities(method)
        return Shape(
            span.blocks, span.rounds, capacity, query, chunk, self.record_clients, self.devices, span.evaluates
        )

    def choose_chunk(self, method: Method, settings: int = 1) -> int | None:
        """Clients trained at a time: all (None) where that takes less than half of the memory there is now.

        On a CPU one, where one's step already fills the cache: its numbers then are still there when they are needed.
        """
        if self.chunk is not None:
            return self.chunk
        each = self._per_client(method)
        if jax.default_backend() == "cpu" and each > _CACHE:
            return 1
        available = memory.device_memory()
        if available is None:
            return None
        rows = max(1, available // (2 * self._at_once(settings) * each))
        return None if rows >= max(self._capacities(method)) else int(rows)

    def fitting(self, label: str, method: Method, chunk: int | None, settings: int = 1) -> memory.Estimate:
        """The memory that running the method takes; raises `DoesNotFit` where there is less."""
        need, available = self.memory(method, chunk, settings), memory.device_memory()
        memory.refuse_if_too_large(label, method, need, self.parameters, len(self.population.sizes), available)
        return need

    def memory(self, method: Method, chunk: int | None, settings: int = 1) -> memory.Estimate:
        """Bytes that running the method keeps on the device."""
        replicas = settings * len(self.seed_list)
        carry = settings * memory.size_of(self.state(method))
        capacity, query = self._capacities(method)
        rows = min(chunk or max(capacity, query), max(capacity, query))
        each = self._per_client(method) + self._drawn_ahead(method)
        cohort = self._at_once(settings) * (rows * each + capacity * 8 * self.parameters)
        clients = len(self.population.sizes)
        span = max(self.plan, key=lambda s: s.length)
        per_round = 40 + (13 * clients if self.record_clients else clients)
        return memory.Estimate(memory.size_of(self.problem), carry, cohort, replicas * span.length * per_round)

    def state(self, method: Method) -> Carry:
        """The shapes of all that the method's replicas [1, R, …] carry from round to round."""
        return engine.start.eval_shape(
            batch([method]), self.problem, self.population, self.seeds, self.traces.past, self.history
        )

    def _capacities(self, method: Method) -> tuple[int, int]:
        """Rows of the cohort that trains, and of the one whose losses are asked for."""
        clients, most = len(self.population.sizes), self.traces.most
        policy = method.participation
        most_trained = clients if method.solver.trains_absent else policy.capacity(most)
        asked = capacity_for(policy.query_capacity(most), clients) if policy.needs_losses else 0
        return capacity_for(most_trained, clients), asked

    def _at_once(self, settings: int) -> int:
        """Replicas that train at the same time: all on a GPU, one a device on a CPU."""
        return self.devices if jax.default_backend() == "cpu" else settings * len(self.seed_list)

    def _per_client(self, method: Method) -> int:
        """Bytes that one client's local step needs."""
        w = jax.ShapeDtypeStruct((self.parameters,), jnp.result_type(float))
        step = _one_step.trace(method, self.problem, self.population, w)
        return memory.peak(step.jaxpr.jaxpr) + 4 * 4 * self.parameters

    def _drawn_ahead(self, method: Method) -> int:
        """Bytes of one client's minibatches where all are drawn before its first step: where all take as many."""
        work, sizes, steps = method.solver.work, self.population.sizes, []

        def one() -> tuple[Array, Array]:
            stream = Stream(jnp.uint32(0), Purpose.WORK, jnp.int32(0))
            steps.append(work.steps(stream, jnp.zeros_like(sizes), sizes))
            return work.minibatch(stream, jnp.int32(0), sizes[0], 0)

        minibatch = jax.eval_shape(one)
        return steps[0] * memory.size_of(minibatch) if isinstance(steps[0], int) else 0


@jax.jit
def _one_step(method: Method, problem: Any, population: Population, w: Array) -> tuple[Array, Array]:
    """A single client's single gradient. It is looked at, never run: any whole numbers do for where samples start."""
    starts, alone = population.sizes, Shape(1, 1, 1, 0, None, False)
    return Replica(method, problem, population, starts, unraveller(problem), jnp.uint32(0), alone).one_step(w)


RESERVED = "__metadata__"  # in files of models
LABEL = f"a non-empty text other than {RESERVED}"


def labelled(methods: Method | Sequence[Method] | Mapping[str, Method]) -> dict[str, Method]:
    """{label: method}; without labels a method's title is its label."""
    if isinstance(methods, Mapping):
        named = dict(methods)
    else:
        several = list(methods) if isinstance(methods, Sequence) else [methods]
        named = {}
        for method in several:
            require(isinstance(method, Method), "methods", method, "methods, such as fedtide.methods.fedavg()")
            label = title_of(method)
            if label in named:
                raise InvalidInput("methods", f"two called '{label}'", "labelled: pass {label: method}")
            named[label] = method
    require(len(named) > 0, "methods", "none", "one or more")
    for label, method in named.items():
        require(isinstance(label, str) and label not in ("", RESERVED), "label of a method", label, LABEL)
        require(isinstance(method, Method), f"methods[{label!r}]", method, "a method, such as fedtide.methods.fedavg()")
    return named


def fitted(method: Method, problem: Any) -> Method:
    """The method with its local work fitted to the sizes of the problem's clients."""
    sizes = np.asarray(problem.sizes)
    is_work = lambda node: hasattr(node, "minibatch")  # noqa: E731
    return jax.tree.map(lambda node: node.fit(sizes) if is_work(node) else node, method, is_leaf=is_work)


def batch(settings: Sequence[Method]) -> Method:
    """Methods of one structure as one method whose numbers have a leading axis [G]."""
    return jax.tree.map(lambda *leaves: _on_device(np.stack([np.asarray(leaf) for leaf in leaves])), *settings)


def _seeds(seeds: int | Sequence[int]) -> list[int]:
    several = isinstance(seeds, Sequence | np.ndarray)
    if not several:
        return list(range(whole("seeds", seeds, 1, MOST_SEEDS)))
    require(1 <= len(seeds) <= MOST_SEEDS, "seeds", f"{len(seeds)} of them", f"1 to {MOST_SEEDS:,}")
    found = [whole("seeds", seed, 0, 2**32 - 1) for seed in seeds]
    require(len(set(found)) == len(found), "seeds", found, "different from each other")
    return found


def _on_device(leaf: Any) -> Array:
    array = np.asarray(leaf)  # converted here: on the device each shape would compile a program for it
    return jax.device_put(array.astype(jnp.result_type(float)) if array.dtype.kind == "f" else array)


def _vector(values: Any) -> Array | None:
    return None if values is None else _on_device(np.asarray(values))
