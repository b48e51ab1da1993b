"""Attackers: who they are, what they send, and that everyone else is honest."""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedtide
from fedtide import methods
from fedtide.adapters.coordinator import Coordinator
from fedtide.adapters.rounds import Round
from fedtide.adapters.training import Gradients
from fedtide.aggregation import Colluding, CoordinateMedian
from fedtide.attackers import attacker_mask
from fedtide.availability import Bernoulli
from fedtide.clock import Buffer, Clock, tiers
from fedtide.errors import FedtideError, InvalidInput
from fedtide.experiments import build, loads
from fedtide.problems import flip_labels
from fedtide.solvers import ControlVariate, GradientTracking, Momentum, OwnModel, RandomUpdate, Sgd, SignFlip
from fedtide.streams import Purpose, Stream
from fedtide.types import Population, Task
from fedtide.work import Steps

CLIENTS, DIMENSION = 6, 1000
PEOPLE = Population(jnp.full(CLIENTS, 1 / CLIENTS), jnp.ones(CLIENTS, int))
W = jnp.asarray(np.random.default_rng(0).normal(size=DIMENSION), jnp.float32)


@jax.jit
def changes(solver, steps=3, seed=0, t=0):
    """w_t − w_k [N, d] of all clients."""
    memory = solver.init(PEOPLE, W)

    def one(client, row):
        task = Task(steps, lambda w, i: (jnp.float32(1), w - client), t)
        task = task._replace(stream=Stream(seed, Purpose.WORK, t), client=client)
        return W - solver.train(W, task, row, memory.shared).w

    return jax.vmap(one)(jnp.arange(CLIENTS), memory.client)


def test_signs_are_flipped_for_attackers_only():
    honest = changes(Sgd(0.1))
    found = changes(SignFlip(Sgd(0.1), (1, 4), 2.5))
    expected = np.array(honest)
    expected[[1, 4]] *= -2.5
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(found[jnp.array([0, 2, 3, 5])], honest[jnp.array([0, 2, 3, 5])])


def test_noise_is_as_long_as_declared_normal_and_addressed():
    honest, solver = np.asarray(changes(Sgd(0.1))), RandomUpdate(Sgd(0.1), (1, 4), 2.0)
    found = np.asarray(changes(solver))
    np.testing.assert_array_equal(found[[0, 2, 3, 5]], honest[[0, 2, 3, 5]])
    noise = found[[1, 4]] / (2 * np.linalg.norm(honest[[1, 4]], axis=1, keepdims=True) / np.sqrt(DIMENSION))
    # 1,000 normal numbers each: mean, variance, fourth moment and correlation within five standard errors.
    assert np.abs(noise.mean(axis=1)).max() < 5 / np.sqrt(DIMENSION)
    assert np.abs((noise**2).mean(axis=1) - 1).max() < 5 * np.sqrt(2 / DIMENSION)
    assert np.abs((noise**4).mean(axis=1) - 3).max() < 5 * np.sqrt(96 / DIMENSION)
    assert abs((noise[0] * noise[1]).mean()) < 5 / np.sqrt(DIMENSION)
    np.testing.assert_array_equal(changes(solver), found)
    for other in (changes(solver, seed=1), changes(solver, t=1)):
        assert abs(np.corrcoef(other[1], found[1])[0, 1]) < 5 / np.sqrt(DIMENSION)


@pytest.mark.parametrize("attack", [SignFlip, RandomUpdate])
def test_no_step_is_no_attack(attack):
    np.testing.assert_array_equal(changes(attack(Sgd(0.1), CLIENTS), steps=0), np.zeros((CLIENTS, DIMENSION)))


def test_the_noise_is_independent_of_the_numbers_that_decide_on_the_steps():
    clients, stream = jnp.arange(2**15), Stream(0, Purpose.WORK, 3)
    drawn = jax.vmap(lambda k: Task(1, lambda w, i: (w, w), client=k, stream=stream).uniform(4)[0])(clients)
    # The standard error of a correlation of 32,768 pairs is 0.0055; the band is 5 of them.
    assert abs(np.corrcoef(drawn, stream.uniform(clients))[0, 1]) < 0.028
    assert abs(np.asarray(drawn).mean() - 0.5) < 5 / np.sqrt(12 * 2**15)


def test_attackers_attack_with_any_barrier():
    """They keep nothing on the client, so an update may be of an older model."""
    method = replace(methods.fedbuff(), solver=SignFlip(Sgd(0.1), 2), aggregation=CoordinateMedian())
    clock = Clock(tiers(6, shares=[0.5, 0.5], seconds_per_step=[0.1, 1.0]), Buffer(k=3, concurrency=4), slot=60.0)
    problem = fedtide.problems.random_quadratic(6)
    found = fedtide.simulate(problem, Bernoulli([0.8] * 6), method, rounds=4, clock=clock)
    assert all(np.isfinite(model).all() for model in found.models.values())


def test_attackers_are_drawn_by_the_seed_one_after_the_other():
    masks = [attacker_mask("attackers", count, 40, 7) for count in range(41)]
    assert [int(mask.sum()) for mask in masks] == list(range(41))
    assert all((few <= more).all() for few, more in itertools.pairwise(masks))
    assert (masks[10] != attacker_mask("attackers", 10, 40, 8)).any()
    np.testing.assert_array_equal(np.flatnonzero(attacker_mask("attackers", (3, 1), 5, 0)), [1, 3])


def test_the_same_clients_attack_in_every_part(blobs):
    mask = attacker_mask("attackers", 4, 12, 3)
    population = Population(jnp.full(12, 1 / 12), jnp.asarray(blobs.sizes))
    np.testing.assert_array_equal(SignFlip(attackers=4, seed=3).init(population, W).shared.attacker, mask)
    np.testing.assert_array_equal(Colluding(attackers=4, seed=3).init(population, 2).attacker, mask)
    flipped = np.asarray(flip_labels(blobs, 4, seed=3).y) != np.asarray(blobs.y)
    owner = np.repeat(np.arange(12), blobs.sizes)
    assert set(owner[flipped]) <= set(np.flatnonzero(mask))


def test_without_attackers_nothing_changes(blobs, chains):
    runs = {
        "honest": methods.fedavg(),
        "none": replace(methods.fedavg(), solver=SignFlip(Sgd(), ())),
        "no colluders": replace(methods.fedavg(), aggregation=Colluding(attackers=0)),
        "flips": replace(methods.fedavg(), solver=SignFlip(Sgd(), (0, 1, 2), 5.0)),
        "noise": replace(methods.fedavg(), solver=RandomUpdate(Sgd(), (0, 1, 2), 20.0)),
        "colluders": replace(methods.fedavg(), aggregation=Colluding(attackers=(0, 1, 2), deviations=20.0)),
    }
    found = fedtide.simulate(blobs, chains, runs, rounds=8, seeds=2, evaluate_every=8)
    for same in ("none", "no colluders"):
        np.testing.assert_array_equal(found.models[same], found.models["honest"])
    for other in ("flips", "noise", "colluders"):
        assert np.abs(found.models[other] - found.models["honest"]).max() > 0.1
    noise = found.models["noise"]
    assert np.abs(noise[0] - noise[1]).max() > 0.1  # the seeds of a run draw different noise


def test_a_client_in_a_deployment_attacks_as_in_the_simulation():
    """The gradients of a user's own code lead to the same noise."""
    method = replace(methods.fedavg(), solver=RandomUpdate(Sgd(0.1, Steps(3, batch=2)), (1,), 2.0))
    w = np.random.default_rng(0).normal(size=7).astype(np.float32)
    population = Population(np.full(3, 1 / 3, np.float32), np.full(3, 20, np.int32))
    coordinator = Coordinator(method, population, w)

    def gradient(arrays, samples, round):
        return 0.0, [arrays[0] - 1]

    sent = {}
    for client in (0, 1):
        row, shared = coordinator.first_row(client), coordinator.shared
        round = Round(coordinator.method, 2, str(client), client, [(7,)], {}, {}, 5).opened(w, row, shared)
        sent[client] = Gradients(gradient, None, None, 20).train(w, round, row, shared).w
    task = Task(3, lambda at, i: (jnp.float32(0), at - 1), 2, 1, False, 1, Stream(5, Purpose.WORK, 2))
    shared = method.solver.init(population, jnp.asarray(w)).shared
    np.testing.assert_allclose(sent[1], method.solver.train(jnp.asarray(w), task, (), shared).w, rtol=1e-5)
    np.testing.assert_allclose(sent[0], w - (w - 1) * (1 - 0.9**3), rtol=1e-5)


def test_other_solvers_fit_inside_and_outside():
    inner = SignFlip(Momentum(0.1, decay=0.5), (0,))
    assert not SignFlip(Momentum(persistent=True)).starts_fresh
    for solver in (inner, SignFlip(ControlVariate(Sgd(0.1)), (0,)), ControlVariate(inner), OwnModel(inner)):
        found = changes(solver)
        assert np.isfinite(found).all()
        assert (found[0] * changes(replace(inner, attackers=()))[0] <= 0).all()
    for wrong in (OwnModel(), GradientTracking()):
        with pytest.raises(InvalidInput, match=r"must be one that sends the change"):
            SignFlip(wrong)


def test_labels_are_flipped_for_attackers_and_only_in_training(blobs):
    flipped = flip_labels(blobs, (2, 5))
    owner = np.repeat(np.arange(12), blobs.sizes)
    attacks = np.isin(owner, (2, 5))
    np.testing.assert_array_equal(flipped.y[attacks], 2 - blobs.y[attacks])
    np.testing.assert_array_equal(flipped.y[~attacks], blobs.y[~attacks])
    np.testing.assert_array_equal(flipped.test_y, blobs.test_y)
    np.testing.assert_array_equal(flip_labels(flipped, (2, 5)).y, blobs.y)
    padded = blobs.padded(len(blobs.y) + 7, len(blobs.test_y))
    np.testing.assert_array_equal(flip_labels(padded, (2, 5)).y[: len(owner)], flipped.y)
    with pytest.raises(InvalidInput, match=r"^problem = 'Quadratic': must be a classification"):
        flip_labels(fedtide.problems.random_quadratic(4), 1)  # pyright: ignore[reportArgumentType]


TOML = """
[problem]
name = "quadratic"
clients = 8

[availability]
name = "bernoulli"
availability = 0.7

[run]
rounds = 2

[[methods]]
name = "coordinate_median"
solver = {name = "sign_flip", attackers = [0, 3], scale = 2.0, solver = {name = "sgd", rate = 0.05}}

[[methods]]
name = "fedavg"
solver = {name = "random_update", attackers = 2, seed = 1}
aggregation = {name = "colluding", attackers = 3, aggregation = {name = "trimmed_mean", trim = 0.3}}
"""


def test_attacks_are_tables_of_a_configuration():
    experiment = build(loads(TOML))
    first, second = experiment.methods.values()
    assert (first.solver.attackers, first.solver.scale, first.solver.solver.rate) == ((0, 3), 2.0, 0.05)
    assert isinstance(first.aggregation, CoordinateMedian)
    assert (second.solver.attackers, second.aggregation.attackers) == (2, 3)
    assert second.aggregation.aggregation.trim == 0.3
    found = fedtide.simulate(experiment.problem, experiment.availability, experiment.methods, **experiment.options)
    assert all(np.isfinite(model).all() for model in found.models.values())
    with pytest.raises(FedtideError, match="a whole number or a list of whole numbers"):
        build(loads(TOML.replace("[0, 3]", "0.5")))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: SignFlip(attackers=-1), r"^solver\.attackers = -1: must be a whole number, 0 or more"),
        (lambda: SignFlip(attackers=(0, -2)), r"^solver\.attackers\[1\] = -2"),
        (lambda: SignFlip(attackers=(2, 2)), r"^solver\.attackers = \(2, 2\): must be different client numbers"),
        (lambda: SignFlip(scale=-1.0), r"^solver\.scale = -1\.0"),
        (lambda: RandomUpdate(scale=-1.0), r"^solver\.scale = -1\.0"),
        (lambda: RandomUpdate(seed=-1), r"^solver\.seed = -1"),
    ],
)
def test_errors_name_the_bad_field(build, message):
    with pytest.raises(InvalidInput, match=message):
        build()


def test_more_attackers_than_clients_are_refused_before_the_run():
    method = replace(methods.fedavg(), solver=SignFlip(attackers=7))
    with pytest.raises(FedtideError, match=r"^solver\.attackers = 7: must be 4 or less, the number of clients"):
        fedtide.simulate(fedtide.problems.random_quadratic(4), Bernoulli([0.5] * 4), method, rounds=1)
