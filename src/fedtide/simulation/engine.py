"""The compiled engine: a segment, for all replicas of a method, is one program.

Replicas have two batch axes: G settings of the method's plain numbers, and R seeds. Methods are written without them.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from fedtide.availability.base import Process
from fedtide.clock import Clock
from fedtide.methods.base import Method
from fedtide.simulation import calls
from fedtide.simulation.measures import EvaluationRecord, summarise
from fedtide.simulation.replica import Carry, SegmentRecord, Shape, initial, replica, unraveller
from fedtide.simulation.timed import TimedReplica
from fedtide.streams import Purpose, Stream
from fedtide.types import Evaluation, Population, Problem

ALONE = Shape(1, 1, 1, 0, None, False)
"""The shape of a replica of which only the shapes of values are needed."""


class Timing(NamedTuple):
    """What a run with a clock needs besides."""

    clock: Clock
    process: Process


@functools.partial(jax.jit, static_argnames=("history",))
def start(
    method: Method,
    problem: Problem,
    population: Population,
    seeds: Array,
    trace: Array,
    history: int,
    timing: Timing | None = None,
) -> Carry:
    """The state before round 0 of every replica [G, R, …]; `trace` [R, history, N] was observed before it."""

    def one(method: Method, seed: Array, trace: Array) -> Carry:
        w, _ = ravel_pytree(problem.init(Stream(seed, Purpose.MODEL).key()))
        carry = initial(method, population, w)
        if timing is not None:
            carry = TimedReplica(replica(method, problem, population, seed, ALONE), *timing).start(carry, history)
        if not history:
            return carry
        observe = lambda state, available: (calls.update(method.estimator, state, available)[1], None)  # noqa: E731
        return carry._replace(estimator=jax.lax.scan(observe, carry.estimator, trace)[0])

    return _replicate(one, method, seeds, trace)


@functools.partial(jax.jit, static_argnames=("shape",), donate_argnames=("carry",))
def run_segment(
    method: Method,
    problem: Problem,
    population: Population,
    seeds: Array,
    carry: Carry,
    first: Array,
    trace: Array,
    shape: Shape,
    timing: Timing | None = None,
) -> tuple[Carry, SegmentRecord]:
    """Runs rounds first … first + blocks · rounds − 1 of every replica; `trace` is bool[R, blocks · rounds, N], or
    without rounds where `timing` has the process itself."""

    def replicas(
        method: Method,
        problem: Problem,
        population: Population,
        first: Array,
        timing: Timing | None,
        seeds: Array,
        trace: Array,
        carry: Carry,
    ) -> tuple[Carry, SegmentRecord]:
        def one(method: Method, seed: Array, trace: Array, carry: Carry) -> tuple[Carry, SegmentRecord]:
            one_replica = replica(method, problem, population, seed, shape)
            rounds = (first + jnp.arange(shape.blocks * shape.rounds)).reshape(shape.blocks, shape.rounds)
            if timing is None:
                inputs, step = (rounds, trace.reshape(shape.blocks, shape.rounds, -1)), one_replica.round
            else:
                inputs, step = (rounds, ()), TimedReplica(one_replica, *timing).round
            return jax.lax.scan(functools.partial(one_replica.block, step), carry, inputs)

        return _replicate(one, method, seeds, trace, carry)

    if shape.devices > 1:
        whole, by_seed, by_both = P(), P("replicas"), P(None, "replicas")
        replicas = jax.shard_map(
            replicas,
            mesh=replica_mesh(shape.devices),
            in_specs=(whole, whole, whole, whole, whole, by_seed, by_seed, by_both),
            out_specs=by_both,
            check_vma=False,
        )
    return replicas(method, problem, population, first, timing, seeds, trace, carry)


def spread(carry: Carry, devices: int) -> Carry:
    """The carry distributed over the devices as a segment returns it, so that the second segment does not recompile."""
    if devices == 1:
        return carry
    return jax.device_put(carry, NamedSharding(replica_mesh(devices), P(None, "replicas")))


def replica_mesh(devices: int) -> Mesh:
    """The devices that share the replicas."""
    return Mesh(jax.devices()[:devices], ("replicas",))


@jax.jit
def served(method: Method, carry: Carry) -> Array:
    """The models to evaluate and return [G, R, d]."""
    return jax.vmap(lambda m, c: jax.vmap(functools.partial(calls.serve, m.server))(c.server, c.w))(method, carry)


@jax.jit
def evaluate(problem: Problem, population: Population, w: Array) -> tuple[EvaluationRecord, Evaluation]:
    """The evaluation of the models w [G, R, d]."""

    def one(w: Array) -> tuple[EvaluationRecord, Evaluation]:
        by_client = problem.evaluate(unravel(w))
        return summarise(by_client, population.importance), by_client

    unravel = unraveller(problem)
    return jax.vmap(jax.vmap(one))(w)


def _replicate(one: Any, method: Method, seeds: Array, *by_seed: Any) -> Any:
    """`one` for all settings of the method's numbers [G] and all seeds [R]. A Carry in `by_seed` has both axes.

    A GPU runs all replicas at once (vmap). A CPU runs one after the other within the same program: a replica then stays
    in the cache, costs as much as alone, and gives the same bits for any number of replicas.
    """
    both = [isinstance(item, Carry) for item in by_seed]
    if jax.default_backend() != "cpu":
        inner = jax.vmap(one, in_axes=(None, 0, *(0 for _ in by_seed)))
        return jax.vmap(inner, in_axes=(0, None, *(0 if b else None for b in both)))(method, seeds, *by_seed)

    def setting(item: tuple[Method, list[Any]]) -> Any:
        settings, carries = item
        own = iter(carries)
        inputs = tuple(next(own) if b else item for b, item in zip(both, by_seed, strict=True))
        return jax.lax.map(lambda x: one(settings, *x), (seeds, *inputs))

    return jax.lax.map(setting, (method, [item for b, item in zip(both, by_seed, strict=True) if b]))
