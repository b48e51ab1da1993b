"""Any part goes with any barrier: every part runs under a barrier, or is refused with the reason."""

import jax
import jax.numpy as jnp
import laws.test_composition as compositions
import numpy as np
import pytest

from fedtide import servers
from fedtide.availability import Markov
from fedtide.clock import Buffer, Clock, Deadline, Devices, FirstOf, Lognormal, WaitForAll, Window
from fedtide.errors import FedtideError
from fedtide.simulation.misfits import refuse_misfits
from fedtide.simulation.replica import Shape, initial, replica
from fedtide.simulation.timed import TimedReplica

STEPS, N = 12, compositions.CLIENTS
BARRIERS = {
    "wait for all": (WaitForAll(), "lost"),
    "limit, counted": (WaitForAll(4.0, late="counted"), "paused"),
    "deadline": (Deadline(4.0), "lost"),
    "first of": (FirstOf(2, invited=4), "lost"),
    "buffer": (Buffer(2, concurrency=4), "lost"),
    "window": (Window(3.0), "finished offline"),
}
world = compositions.world


def allowed(choice, barrier):
    try:
        refuse_misfits("m", compositions.method_of(choice), Clock(Devices(), barrier), compositions.CLIENTS)
    except FedtideError:
        return False
    return True


def spread():
    """For each barrier compositions in which every part that it allows is at least once; one of them runs always."""
    cases = []
    for name, (barrier, leaving) in BARRIERS.items():
        seen, first = set(), True
        for choice in compositions.covering():
            new = set(enumerate(choice)) - seen
            if new and allowed(choice, barrier):
                seen |= new
                marks = () if first else (pytest.mark.slow,)
                label = f"{name}, {'-'.join(map(str, choice))}"
                cases.append(pytest.param(choice, barrier, leaving, id=label, marks=marks))
                first = False
    return cases


@pytest.mark.parametrize(("choice", "barrier", "leaving"), spread())
def test_it_runs_and_keeps_the_laws(choice, barrier, leaving, world, haste):
    method = compositions.method_of(choice)
    clock = Clock(Devices(np.linspace(0.5, 3, N), jitter=Lognormal()), barrier, 2.0, leaving).fit(N)
    process = Markov(np.append(np.full(N - 1, 0.7), 0.0), 0.0)
    shape = Shape(1, STEPS, N, N, None, record_clients=True, arrivals=N)

    def run(method, problem, population, clock, process):
        one = TimedReplica(replica(method, problem, population, jnp.uint32(0), shape), clock, process)
        start = one.start(initial(method, population, jnp.zeros(compositions.DIMENSION)), 0)

        def step(carry, t):
            after, record = one.round(carry, (t, ()))
            return after, (after, record)

        return start, jax.lax.scan(step, start, jnp.arange(STEPS))[1]

    program = jax.jit(run, compiler_options=haste)
    before, (carries, (rounds, clients, faults, (steps, arrivals))) = jax.tree.map(
        np.asarray, program(method, world.problem, world.population, clock, process)
    )
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((carries.w, rounds.step, clients.weight)))
    assert not faults.any()
    assert (steps.starts.cumsum() >= (steps.arrived + steps.lost + steps.late).cumsum()).all()
    assert (steps.wasted <= steps.worked + 1e-3).all() or barrier.keeps
    assert (clients.weight[~arrivals.arrived] == 0).all()
    assert (arrivals.age[~arrivals.arrived] == 0).all()
    assert barrier.keeps or (arrivals.age == 0).all()
    assert steps.arrived.max() > 0
    assert rounds.step.max() > 0
    if not (method.aggregation.moves_when_empty or isinstance(method.server, servers.Amplified)):
        models = np.concatenate([before.w[None], carries.w])
        still = steps.arrived == 0
        np.testing.assert_array_equal(models[1:][still], models[:-1][still])
    # The last client is never available: what it remembers is what it began with.
    for first, last in zip(*map(jax.tree.leaves, (before.solver.client, carries.solver.client)), strict=True):
        np.testing.assert_array_equal(last[-1, -1], first[-1])
