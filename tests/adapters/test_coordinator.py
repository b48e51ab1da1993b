"""A server without a network and clients one by one give the simulator's numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedtide
from fedtide import methods
from fedtide.adapters.coordinator import Coordinator, Update, sends_rows
from fedtide.adapters.problem import ProblemTrainer, initial_model, population_of
from fedtide.adapters.rounds import Round
from fedtide.aggregation import WeightedSum
from fedtide.availability import Always, Trace
from fedtide.estimators import Blind
from fedtide.methods.base import Method
from fedtide.participation.base import Policy
from fedtide.schedules import Geometric, PerClient, PowerDecay
from fedtide.servers import Optimiser
from fedtide.simulation.trees import named, tree_of
from fedtide.solvers import Sgd
from fedtide.types import Decision, part
from fedtide.work import Steps

WORK = Steps(count=3, batch=4)
METHODS = {
    "fedavg": methods.fedavg(work=WORK),
    "ca_fed": methods.ca_fed(work=WORK),
    "fedvarp": methods.fedvarp(work=WORK),
    "scaffold": methods.scaffold(work=WORK),
    "fednova": methods.fednova(work=fedtide.work.RandomSteps(1, 4, 4)),
    "fed_cvar_avg": methods.fed_cvar_avg(rate=0.01, work=WORK),
    "fedawe": methods.fedawe(work=WORK),
    "amplified_scaffold": methods.amplified_scaffold(period=2, work=WORK),
    "focus": methods.focus(work=WORK),
    "fedvarp, rates by client": methods.fedvarp(work=WORK, schedule=PerClient(np.linspace(0.2, 2, 12), PowerDecay())),
    # Its empty rounds have a rate, which depends on the work of all clients.
    "mifa, scheduled": methods.mifa(work=fedtide.work.RandomSteps(0, 4, 4), schedule=PowerDecay(unit="steps")),
}


def play(problem, method, presence, seed=0):
    """Drives a coordinator and clients through the presence matrix: (coordinator, choices)."""
    coordinator = Coordinator(method, population_of(problem), initial_model(problem, seed), seed)
    trainer = ProblemTrainer(problem)
    rows = [coordinator.first_row(k) for k in range(coordinator.clients)]
    choices = []
    for t, available in enumerate(presence):
        opening = coordinator.begin(t, available)
        w, shared = coordinator.model, coordinator.shared
        of = [Round(method, t, node={"partition-id": k}, seed=seed) for k in range(coordinator.clients)]
        losses = {int(k): trainer.loss(w, of[k]) for k in np.flatnonzero(opening.observation.asked)}
        choice = coordinator.decide(opening, losses)
        answers = {}
        for k in np.flatnonzero(choice.invited).tolist():
            trained = trainer.train(w, of[k], rows[k], shared)
            sent = (rows[k], trained.row) if sends_rows(method) else ()
            answers[k] = Update(
                w - trained.w, trained.loss, trained.steps, trained.mass, trained.rate, trained.message, *sent
            )
            rows[k] = trained.row
        for k, changed in coordinator.finish(choice, answers).owed.items():
            rows[k] = tree_of(rows[k], named(rows[k]) | changed)
        choices.append(choice)
    return coordinator, choices


@pytest.mark.parametrize("name", METHODS)
def test_everybody_there_gives_the_simulators_parameters(name, blobs):
    method, rounds = METHODS[name], 5
    result = fedtide.simulate(blobs, Always(12), {name: method}, rounds=rounds, evaluate_every=rounds)
    coordinator, _ = play(blobs, method, np.ones((rounds, 12), bool))
    np.testing.assert_allclose(coordinator.served, result.models[name][0], atol=1e-6, rtol=1e-6)
    assert np.abs(coordinator.served - initial_model(blobs)).max() > 1e-2  # something was learned


@pytest.mark.parametrize(
    "name", ["ca_fed", "scaffold", "fedawe", "focus", "mifa, scheduled", "fedvarp, rates by client"]
)
def test_a_recorded_presence_gives_the_simulators_decisions(name, blobs):
    rounds = 12
    presence = np.random.default_rng(3).random((rounds, 12)) < np.linspace(0.2, 0.9, 12)
    presence[4] = False
    method = methods.ca_fed(kappa_squared=0.05, work=WORK) if name == "ca_fed" else METHODS[name]
    result = fedtide.simulate(blobs, Trace(presence), {name: method}, rounds=rounds, evaluate_every=rounds)
    active, invited = result.attendance(name)
    coordinator, choices = play(blobs, method, presence)
    np.testing.assert_array_equal(active[0], presence)
    np.testing.assert_array_equal([c.invited for c in choices], invited[0])
    weight = result.clients.sort("round", "client")["weight"].to_numpy().reshape(rounds, 12)
    np.testing.assert_allclose([c.weight for c in choices], weight, rtol=1e-6)
    np.testing.assert_allclose(coordinator.served, result.models[name][0], atol=1e-6, rtol=1e-5)
    if name == "ca_fed":
        assert (invited[0] < active[0]).any()  # it did leave somebody out


def test_an_unfinished_round_leaves_no_trace(blobs):
    coordinator = Coordinator(METHODS["ca_fed"], population_of(blobs), initial_model(blobs))
    before = jax.tree.map(np.asarray, coordinator.carry)
    opening = coordinator.begin(0, np.ones(12, bool))
    coordinator.decide(opening, dict.fromkeys(range(12), 1.0))
    jax.tree.map(np.testing.assert_array_equal, before, jax.tree.map(np.asarray, coordinator.carry))


def test_late_updates_enter_the_memory_and_no_direction(blobs):
    """A late update moves nothing in its own round, and counts by α in later ones."""
    coordinator = Coordinator(METHODS["fedvarp"], population_of(blobs), initial_model(blobs))
    nobody = np.zeros(12, bool)
    late = Update(np.ones_like(coordinator.start), 1.0, 3, 0.3, 0.1)
    coordinator.finish(coordinator.decide(coordinator.begin(0, nobody)), {}, {2: late})
    np.testing.assert_array_equal(coordinator.model, coordinator.start)
    coordinator.finish(coordinator.decide(coordinator.begin(1, nobody)), {})
    alpha = float(np.asarray(blobs.importance)[2])
    np.testing.assert_allclose(coordinator.start - coordinator.model, alpha, rtol=1e-5)


def test_a_late_update_does_not_bring_back_its_rate(blobs):
    """In a round that only a late update reaches, memory moves at the rate of that round."""
    method = methods.mifa(0.1, work=WORK, schedule=Geometric(0.5))
    coordinator = Coordinator(method, population_of(blobs), initial_model(blobs))
    nobody, change = np.zeros(12, bool), np.ones_like(coordinator.start)
    for t, late in enumerate([{2: Update(change, 1.0, 3, 0.3, 0.1)}, {3: Update(0 * change, 1.0, 3, 0.3, 0.1)}]):
        before = coordinator.model
        coordinator.finish(coordinator.decide(coordinator.begin(t, nobody)), {}, late)
    alpha = float(np.asarray(blobs.importance)[2])
    np.testing.assert_allclose(before - coordinator.model, alpha / 2, rtol=1e-5)  # the rate has halved since round 0


def test_methods_whose_clients_train_unheard_are_refused(blobs):
    with pytest.raises(fedtide.FedtideError, match="FedPBC: its clients also train in rounds"):
        Coordinator(methods.fedpbc(), population_of(blobs), initial_model(blobs))


@part
class AsksAll(Policy):
    """Asks for losses of clients that are not available, too."""

    @property
    def needs_losses(self):
        return "batch"

    def init(self, population):
        return ()

    def candidates(self, state, seen):
        return jnp.ones_like(seen.available)

    def query_capacity(self, clients):
        return clients

    def decide(self, state, seen):
        return Decision(seen.available, jnp.where(seen.available, 0.1, 0.0)), state


@pytest.mark.parametrize(("names", "who"), [((), ""), ("abcdefghijkl", r" \(client 2 is 'c'\)")])
def test_who_is_not_available_cannot_be_asked_for_a_loss(blobs, names, who):
    """The words are the simulator's."""
    method = Method("mine", Blind(), AsksAll(), Sgd(0.05), WeightedSum(), Optimiser(rate=1.0))
    coordinator = Coordinator(method, population_of(blobs), initial_model(blobs), names=names)
    wrong = r"AsksAll\.decide: asks client 2, which is not available, for its loss"
    with pytest.raises(fedtide.FedtideError, match=f"^round 4: {wrong}{who}$"):
        coordinator.begin(3, np.arange(12) != 2)
    presence = np.ones((4, 12), bool)
    presence[3, 2] = False
    with pytest.raises(fedtide.FedtideError, match=f"round 4: {wrong}$"):
        fedtide.simulate(blobs, Trace(presence), method, rounds=4)


def test_a_missing_loss_is_an_error(blobs):
    coordinator = Coordinator(METHODS["ca_fed"], population_of(blobs), initial_model(blobs))
    with pytest.raises(fedtide.FedtideError, match="losses"):
        coordinator.decide(coordinator.begin(0, np.ones(12, bool)), {0: 1.0})
