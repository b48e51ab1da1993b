"""The engine's events, records and models are those of a queue of events in plain Python, for random small settings."""

import clock.event_queue
import jax
import numpy as np
import pytest
from scipy.special import ndtri

import fedtide
from fedtide.availability import Markov
from fedtide.clock import Buffer, Clock, Deadline, Devices, FirstOf, Lognormal, WaitForAll, Window
from fedtide.problems.quadratic import quadratic
from fedtide.streams import Purpose, Stream
from fedtide.work import StepsPerClient

CLIENTS, DIMENSION, STEPS, SLOTS = 6, 2, 25, 400

# Barriers and rules of leaving are structure: each is one compilation, shared by its random settings.
STRUCTURES = {
    "wait for all, lost": (lambda s: WaitForAll(), "lost"),
    "limit, counted, paused": (lambda s: WaitForAll(limit=s, every=s / 2, late="counted"), "paused"),
    "deadline, dropped, offline": (lambda s: Deadline(s), "finished offline"),
    "deadline, counted, lost": (lambda s: Deadline(s, late="counted"), "lost"),
    "first of, lost": (lambda s: FirstOf(2, invited=4), "lost"),
    "buffer, lost": (lambda s: Buffer(2, concurrency=4), "lost"),
    "window, paused": (lambda s: Window(s, concurrency=3), "paused"),
    "buffer of models, lost": (lambda s: Buffer(2, concurrency=4), "lost"),
}


@jax.jit
def _uniform(seed):
    """The random numbers of tasks [server step, slot, client, 2]."""
    clients, steps, slots = np.arange(CLIENTS), np.arange(STEPS), np.arange(SLOTS)
    draw = lambda t, slot: Stream(seed, Purpose.TIME, t).uniform(clients, 2, start=4 * slot)  # noqa: E731
    return jax.vmap(lambda t: jax.vmap(lambda slot: draw(t, slot))(slots))(steps)


@pytest.mark.parametrize("draw", range(3))
@pytest.mark.parametrize("name", STRUCTURES)
def test_same_events_and_model(name, draw):
    build, leaving = STRUCTURES[name]
    rng = np.random.default_rng([draw, len(name)])
    centres, curvature = rng.normal(size=(CLIENTS, DIMENSION)), rng.uniform(0.5, 2, CLIENTS)
    speeds = rng.uniform(0.2, 2, CLIENTS)
    counts, rate, spread = np.arange(1, CLIENTS + 1), 0.1, rng.uniform(0.1, 1)
    slot, seed, seconds = rng.uniform(0.7, 3), int(rng.integers(1000)), rng.uniform(2, 6)
    latency, download = rng.uniform(0, 0.3, CLIENTS), rng.uniform(20, 200, CLIENTS)
    barrier, mixes = build(seconds), "models" in name
    method = fedtide.methods.fedasync if mixes else fedtide.methods.fedbuff
    options = {"server_rate": 1.0, "mu": 0.0} if mixes else {}
    with jax.enable_x64(True):
        process = Markov(rng.uniform(0.4, 0.9, CLIENTS), rng.uniform(0.2, 0.8, CLIENTS))
        devices = Devices(speeds, download, np.inf, latency, Lognormal(spread))
        result = fedtide.simulate(
            quadratic(curvature, centres),
            process,
            {"m": method(rate, work=StepsPerClient(counts, batch=1), **options)},
            rounds=STEPS,
            seeds=[seed],
            evaluate_every=STEPS,
            clock=Clock(devices, barrier, slot, leaving),
        )
        uniform = np.asarray(_uniform(np.uint32(seed)))
        available = process.sample(seed, SLOTS)

    def duration(t, slot, k):
        factor = np.exp(spread * ndtri(uniform[t, slot, k, 0]) - spread**2 / 2)
        return factor * (latency[k] + 8 * DIMENSION / download[k] + speeds[k] * counts[k])

    def train(w, k):
        start = w
        for _ in range(counts[k]):
            w = w - rate * curvature[k] * (w - centres[k])
        return start - w

    queue = clock.event_queue.Queue(
        barrier, leaving, slot, available, duration, lambda t, slot, k: uniform[t, slot, k, 1], train,
        lambda age: (1 + age) ** -0.5, np.zeros(DIMENSION), mixes,
    )  # fmt: skip
    steps, w = queue.run(STEPS)
    rounds = result.rounds.filter(result.rounds["round"] > 0)
    for name in ("starts", "lost", "late"):
        assert rounds[name].to_list() == [getattr(step, name) for step in steps], name
    clients = result.clients.filter(result.clients["arrived"])
    arrived = [dict(clients.filter(round=t + 1).select("client", "age").iter_rows()) for t in range(STEPS)]
    assert arrived == [step.arrived for step in steps]
    np.testing.assert_allclose(rounds["seconds"], [step.seconds for step in steps], rtol=1e-9)
    np.testing.assert_allclose(rounds["wasted"], [step.wasted for step in steps], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(result.models["m"][0], w, rtol=1e-9, atol=1e-12)
