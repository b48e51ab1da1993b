"""From a user's arguments to the engine's: checked, on the device, with a memory estimate."""

import copy
import dataclasses
import functools
import inspect
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from fedtide.availability.base import Process
from fedtide.clock import Clock
from fedtide.errors import DoesNotFit, FedtideError, InvalidInput, check_kind, check_part, flag, require, whole
from fedtide.methods.base import CATALOGUE, Method, title_of
from fedtide.participation import SampleWithReplacement
from fedtide.simulation import engine, memory
from fedtide.simulation.cohorts import capacity_for
from fedtide.simulation.engine import Timing
from fedtide.simulation.misfits import refuse_misfits
from fedtide.simulation.replica import Carry, Replica, Shape, replica, unraveller
from fedtide.simulation.timed import TimedReplica
from fedtide.simulation.traces import Segment, Traces, segments
from fedtide.streams import Purpose, Stream
from fedtide.text import readable
from fedtide.types import Population

log = logging.getLogger("fedtide")

MOST_ROUNDS, MOST_SEEDS = 10_000_000, 1_000_000  # larger numbers are taken for mistakes
_SEGMENT, _GPU_SEGMENT = 50, 200  # rounds between returns to the host, during which a GPU is idle
_CACHE = 2**20  # bytes in the cache of a CPU core
_RECORD_LIMIT = 50_000_000  # rows of the table of clients up to which it is recorded by default
_SMALLER = {
    "data": "use a problem with fewer clients or samples",
    "state": "use a smaller model or fewer clients",
    "cohort": "use fewer clients per round, a smaller batch or a smaller chunk",
    "records": "do not record the clients (record_clients)",
}
"""What makes the largest part of a run of a single seed smaller."""
_TRACE_LIMIT = 256_000_000  # client-rounds of a segment, over all seeds


def check_federation(problem: Any, availability: Any) -> None:
    """Raises `InvalidInput` unless these are a problem and an availability process."""
    known = all(hasattr(problem, name) for name in ("sizes", "importance", "init", "losses", "evaluate"))
    require(known and not isinstance(problem, type), "problem", problem, "a problem such as fedtide.problems.digits()")
    known = all(hasattr(availability, name) for name in ("clients", "init", "step"))
    allowed = "a process such as fedtide.availability.Bernoulli(0.5, clients=20)"
    require(known and not isinstance(availability, type), "availability", availability, allowed)
    check_part("availability", availability)


class Setup:
    """A federation and the plan of a run, on which methods are run."""

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
        clock: Clock | None = None,
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
        self.timing = None
        if clock is not None:
            check_kind("clock", clock, "clock")
            for label, method in methods.items():
                refuse_misfits(label, method, clock, len(problem.sizes), history)
            self.timing = Timing(*jax.tree.map(on_device, (clock.fit(clients), availability)))
        for label, method in methods.items():
            _refuse_more(label, method, clients)
        self.seed_list = _seeds(seeds)
        observed, available = history * len(self.seed_list) * clients, memory.device_memory()  # a byte each
        if available is not None and observed > available:
            need = f"about {readable(observed)} for {len(self.seed_list):,} seeds and {clients:,} clients"
            raise DoesNotFit(f"history = {history}: needs {need}, the device has {readable(available)}")
        self.seeds = jax.device_put(np.asarray(self.seed_list, np.uint32))
        self.rounds, self.evaluate_every, self.history = rounds, evaluate_every, history
        self.availability, self.chunk = availability, chunk
        self.problem = jax.tree.map(on_device, problem)
        policies = [m.participation for m in methods.values()]
        # Policies that select by loss need the optima only for the skew.
        needs_optimum = any(p.needs_optimum and (skew or not p.selects_by_loss) for p in policies)
        # A policy that decides on arrivals takes these for the available clients; how often they come is unknown.
        of_slots = clock is None or clock.barrier.starts == "policy"
        self.population = Population(
            importance=on_device(np.asarray(problem.importance)),
            sizes=on_device(np.asarray(problem.sizes, np.int32)),
            availability=_vector(availability.availability) if of_slots else None,
            correlation=_vector(availability.correlation) if of_slots else None,
            optimum=_vector(problem.client_optima()) if needs_optimum else None,
            labels=_vector(getattr(problem, "label_counts", None)),
        )
        w = jax.eval_shape(lambda: ravel_pytree(problem.init(jax.random.key(0)))[0])
        if w.dtype != jnp.result_type(float):
            raise FedtideError(f"model: parameters of type {w.dtype}; all must be {jnp.result_type(float)} here")
        self.parameters = w.size
        replicas = len(self.seed_list)
        segment = _SEGMENT if jax.default_backend() == "cpu" else _GPU_SEGMENT
        longest = max(1, min(segment, _TRACE_LIMIT // (clients * replicas)))
        self.plan: list[Segment] = list(segments(rounds, evaluate_every, longest))
        if record_clients is None:
            record_clients = len(methods) * replicas * rounds * clients <= _RECORD_LIMIT
            if not record_clients:
                log.info("the table of clients is not recorded: it would have over %s rows", f"{_RECORD_LIMIT:,}")
        self.record_clients = bool(record_clients)
        if availability.availability is not None and (
            absent := int((np.asarray(availability.availability) == 0).sum())
        ):
            log.warning("%d of %d clients are never available: no method can learn from them", absent, clients)
        self.devices = self.sharing(len(jax.devices()))

    def sharing(self, devices: int) -> int:
        """The largest number of devices that divides the seeds evenly; each runs its seeds independently."""
        return max(d for d in range(1, devices + 1) if len(self.seed_list) % d == 0)

    def share(self, seeds: Sequence[int], most: int) -> "Setup":
        """The setup of some of the seeds, with the same segments and cohort capacities, so that no number changes."""
        own = copy.copy(self)
        own.seed_list = list(seeds)
        own.seeds = jax.device_put(np.asarray(seeds, np.uint32))
        own.devices = own.sharing(len(jax.devices()))
        own.traces = own._traces(most)
        return own

    @functools.cached_property
    def traces(self) -> Traces:
        return self._traces()

    def _traces(self, most: int = 0) -> Traces:
        process = jax.tree.map(on_device, self.availability)
        # With a clock slots are drawn as time passes: how many a server step takes is not known before.
        plan = self.plan if self.timing is None else []
        return Traces(process, self.seeds, plan, self.history, most)

    def shape(self, method: Method, segment: Segment, chunk: int | None) -> Shape:
        """The static parameters of a segment's program."""
        capacity, query = self._capacities(method)
        return Shape(
            segment.blocks, segment.rounds, capacity, query, chunk, self.record_clients, self.devices,
            segment.evaluates, self._arrivals(method),
        )  # fmt: skip

    def choose_chunk(self, method: Method, settings: int = 1) -> int | None:
        """Clients trained at a time: all (None) where that takes less than half of the available memory.

        On a CPU one, where the step of one client fills the cache: its data then remain in the cache.
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

    def fitting(self, label: str, method: Method, chunk: int | None, settings: int = 1) -> memory.MemoryEstimate:
        """The memory that the method needs; raises `DoesNotFit` where less is available."""
        need, available = self.memory(method, chunk, settings), memory.device_memory()
        if available is None or need.total <= available:
            return need
        clients, parts = len(self.population.sizes), need._asdict()
        largest = max(parts, key=lambda name: parts[name])
        advice = "run fewer seeds at a time" if settings * len(self.seed_list) > 1 else _SMALLER[largest]
        rows = self.parameters * clients * jnp.dtype(jnp.result_type(float)).itemsize
        in_flight = settings * memory.size_of(self.state(method).time)
        if in_flight > available / 2:
            kept = f"{readable(in_flight)} for the updates of clients that work at the same time"
            advice = f"this barrier keeps {kept}; a Buffer or a Window with less concurrency keeps fewer"
        elif need.state > available / 2 and need.state >= rows:
            kept = f"{readable(rows)} for rows of {self.parameters:,} parameters for each of {clients:,} clients"
            entry = CATALOGUE.get(method.name)
            on_server = entry is not None and entry.facts.server_rows == "N"
            other = (
                "cluster_fedvarp keeps one row per cluster instead" if on_server else "use a method without such rows"
            )
            advice = f"this method keeps {kept}; {other}"
        raise DoesNotFit(f"{label}: needs about {need}, but the device has only {readable(available)}: {advice}")

    def memory(self, method: Method, chunk: int | None, settings: int = 1) -> memory.MemoryEstimate:
        """The bytes that the method needs on the device."""
        replicas = settings * len(self.seed_list)
        carry = settings * memory.size_of(self.state(method))
        capacity, query = self._capacities(method)
        rows = min(chunk or max(capacity, query), max(capacity, query))
        each = self._per_client(method) + self._drawn_ahead(method)
        cohort = self._at_once(settings) * (rows * each + capacity * 8 * self.parameters)
        clients = len(self.population.sizes)
        segment = max(self.plan, key=lambda s: s.length)
        per_round = 40 + (13 * clients if self.record_clients else clients)
        return memory.MemoryEstimate(memory.size_of(self.problem), carry, cohort, replicas * segment.length * per_round)

    def state(self, method: Method) -> Carry:
        """The shapes of the state of the method's replicas [1, R, …]."""
        return engine.start.eval_shape(
            batch([method]), self.problem, self.population, self.seeds, self.traces.past, self.history, self.timing
        )

    @property
    def slot_seconds(self) -> float:
        """The length of a slot of availability."""
        assert self.timing is not None
        return float(self.timing.clock.slot)

    def message_sizes(self, method: Method) -> tuple[int, int]:
        """Bytes of a download and of an upload."""
        timing, sizes = self.timing, []
        assert timing is not None

        def trace(carry: Carry) -> None:
            one = replica(method, self.problem, self.population, jnp.uint32(0), engine.ALONE)
            sizes.append(TimedReplica(one, *timing).message_sizes(carry))

        jax.eval_shape(trace, jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[2:], a.dtype), self.state(method)))
        return sizes[0]

    def _capacities(self, method: Method) -> tuple[int, int]:
        """Rows of the cohort that trains, and of the one that is asked for losses."""
        clients, policy = len(self.population.sizes), method.participation
        if self.timing is not None:
            return self._timed_capacities(method)
        most = self.traces.most
        most_trained = clients if method.solver.trains_absent else policy.capacity(most)
        asked = capacity_for(policy.query_capacity(most), clients) if policy.needs_losses else 0
        return capacity_for(most_trained, clients), asked

    def _timed_capacities(self, method: Method) -> tuple[int, int]:
        """The same with a clock, under which any client may be available."""
        assert self.timing is not None
        clients, policy, barrier = len(self.population.sizes), method.participation, self.timing.clock.barrier
        asked = capacity_for(policy.query_capacity(clients), clients) if policy.needs_losses else 0
        most = policy.capacity(clients)
        if barrier.starts == "places":
            most = min(most, barrier.target or clients)  # that arrive before a server step
            if barrier.keeps:
                most += barrier.places or clients  # and that still work
        return capacity_for(min(most, clients), clients), asked

    def _arrivals(self, method: Method) -> int:
        """Rows of the cohort that arrives, where it is not the one that trains."""
        if self.timing is None or not self.timing.clock.barrier.keeps:
            return 0
        clients, barrier = len(self.population.sizes), self.timing.clock.barrier
        if barrier.starts == "policy":
            return clients  # those of any number of rounds may arrive in one
        return capacity_for(min(method.participation.capacity(clients), barrier.target or clients), clients)

    def _at_once(self, settings: int) -> int:
        """Replicas that train at the same time: all on a GPU, one per device on a CPU."""
        return self.devices if jax.default_backend() == "cpu" else settings * len(self.seed_list)

    def _per_client(self, method: Method) -> int:
        """Bytes that one client's local step needs."""
        w = jax.ShapeDtypeStruct((self.parameters,), jnp.result_type(float))
        step = _one_step.trace(method, self.problem, self.population, w)
        return memory.peak(step.jaxpr.jaxpr) + 4 * 4 * self.parameters

    def _drawn_ahead(self, method: Method) -> int:
        """Bytes of one client's minibatches where all are drawn before its first step: with equal numbers of steps."""
        work, sizes, steps = method.solver.work, self.population.sizes, []

        def one() -> tuple[Array, Array]:
            stream = Stream(jnp.uint32(0), Purpose.WORK, jnp.int32(0))
            steps.append(work.steps(stream, jnp.zeros_like(sizes), sizes))
            return work.minibatch(stream, jnp.int32(0), sizes[0], 0)

        minibatch = jax.eval_shape(one)
        return steps[0] * memory.size_of(minibatch) if isinstance(steps[0], int) else 0


@jax.jit
def _one_step(method: Method, problem: Any, population: Population, w: Array) -> tuple[Array, Array]:
    """A single gradient of a single client. It is traced but never run, so the first samples may be any numbers."""
    starts, seed = population.sizes, jnp.uint32(0)
    return Replica(method, problem, population, starts, unraveller(problem), seed, engine.ALONE).one_step(w)


def _refuse_more(label: str, method: Method, clients: int) -> None:
    """Raises `InvalidInput` where a policy invites a number of clients per round that the federation does not have.

    A number that is a default was not chosen by anybody, and draws with replacement may outnumber the clients.
    """
    entry = CATALOGUE.get(method.name)
    defaults = {} if entry is None else inspect.signature(entry.build).parameters
    default = defaults["clients"].default if "clients" in defaults else None
    for part in _parts(method.participation):
        wanted = getattr(part, "clients", None)
        standard = (default, part.__dataclass_fields__["clients"].default) if wanted is not None else ()
        if wanted is None or wanted in standard or isinstance(part, SampleWithReplacement):
            continue
        require(wanted <= clients, f"{label}: clients", wanted, f"at most {clients}, the number of clients")


def _parts(part: Any) -> Iterator[Any]:
    """A part and the parts in its fields."""
    if dataclasses.is_dataclass(part):
        yield part
        for field in dataclasses.fields(part):
            yield from _parts(getattr(part, field.name))


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
        require(isinstance(label, str) and label != "", "label of a method", label, "a non-empty text")
        require(isinstance(method, Method), f"methods[{label!r}]", method, "a method, such as fedtide.methods.fedavg()")
    return named


def fitted(method: Method, problem: Any) -> Method:
    """The method with its local work, and rates that differ by client, fitted to the sizes of the problem's clients."""
    sizes = np.asarray(problem.sizes)
    fits = lambda node: hasattr(node, "fit")  # noqa: E731
    return jax.tree.map(lambda node: node.fit(sizes) if fits(node) else node, method, is_leaf=fits)


def batch(settings: Sequence[Method]) -> Method:
    """Methods of one structure as one method whose numbers have a leading axis [G]."""
    return jax.tree.map(lambda *leaves: on_device(np.stack([np.asarray(leaf) for leaf in leaves])), *settings)


def _seeds(seeds: int | Sequence[int]) -> list[int]:
    if not isinstance(seeds, Sequence | np.ndarray) or getattr(seeds, "ndim", 1) != 1:
        return list(range(whole("seeds", seeds, 1, MOST_SEEDS)))
    require(1 <= len(seeds) <= MOST_SEEDS, "seeds", f"{len(seeds)} of them", f"1 to {MOST_SEEDS:,}")
    checked = [whole("seeds", seed, 0, 2**32 - 1) for seed in seeds]
    require(len(set(checked)) == len(checked), "seeds", checked, "different from each other")
    return checked


def on_device(leaf: Any) -> Array:
    """The leaf on the device, with the default type if it is floating-point."""
    array = np.asarray(leaf)  # converted on the host: on the device each shape would compile a program
    return jax.device_put(array.astype(jnp.result_type(float)) if array.dtype.kind == "f" else array)


def _vector(values: Any) -> Array | None:
    return None if values is None else on_device(np.asarray(values))
