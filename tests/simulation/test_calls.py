"""What parts return is checked: a part of one's own that is wrong ends in one line, not in wrong numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedtide
from fedtide.adapters.coordinator import Coordinator
from fedtide.adapters.problem import initial_model, population_of
from fedtide.aggregation import LatestUpdates, WeightedSum
from fedtide.availability import Trace
from fedtide.errors import FedtideError
from fedtide.estimators import Blind
from fedtide.methods import CATALOGUE, fedavg
from fedtide.participation.base import Policy
from fedtide.servers import Optimiser
from fedtide.simulation import calls
from fedtide.solvers import Sgd
from fedtide.solvers.base import Local
from fedtide.streams import Purpose, Stream
from fedtide.types import Decision, Estimate, Observation, Population, Trained, Work, part
from fedtide.work import Steps

SIX = np.array([1, 1, 0, 1, 0, 1], bool)


def seen(available=SIX, asked=None):
    nothing, nobody = jnp.zeros(len(available)), jnp.zeros(len(available), bool)
    stream = Stream(jnp.uint32(0), Purpose.PARTICIPATION, jnp.int32(0))
    asked = nobody if asked is None else jnp.asarray(asked)
    population = Population(nothing + 1 / len(available), nothing + 1)
    estimate = Estimate(nothing, nothing)
    return Observation(jnp.asarray(available), estimate, nothing, asked, jnp.int32(0), stream, population)


def fault(invited=SIX, weight=None, asked=None, query_capacity=6, capacity=6):
    weight = np.where(invited, 0.25, 0) if weight is None else weight
    decision = Decision(jnp.asarray(invited), jnp.asarray(weight, jnp.float32))
    found = int(calls.fault(seen(asked=asked), decision, query_capacity, capacity))
    return calls.explain(Policy(), found, 6) if found else None  # pyright: ignore[reportArgumentType]


def test_a_decision_that_keeps_the_rules_has_no_fault():
    assert fault() is None
    assert fault(invited=np.zeros(6, bool)) is None
    assert fault(asked=SIX, query_capacity=4, capacity=4) is None


@pytest.mark.parametrize(
    ("decision", "words"),
    [
        ({"invited": np.ones(6, bool)}, "invites client 2, which is not available"),
        ({"invited": np.arange(6) == 4}, "invites client 4, which is not available"),
        ({"weight": np.where(SIX, 0.25, [0, 0, 0, 0, 1, 0])}, "gives client 4 a weight without inviting it"),
        ({"weight": [np.inf, 0.1, 0, 0.1, 0, 0.1]}, "gives client 0 a weight that is not finite"),
        ({"weight": [0.1, 0.1, 0, 0.1, 0, np.nan]}, "gives client 5 a weight that is not finite"),
        ({"weight": [0.1, 0.1, np.nan, 0.1, 0, 0.1]}, "gives client 2 a weight that is not finite"),
        ({"asked": np.arange(6) == 2}, "asks client 2, which is not available, for its loss"),
        ({"asked": SIX, "query_capacity": 3}, "asks more clients for a loss than its query_capacity allows"),
        ({"capacity": 3}, "invites more clients than its capacity allows"),
        # Where several rules are broken, the one that says most is named, for the first client.
        ({"invited": np.ones(6, bool), "capacity": 4}, "invites client 2, which is not available"),
        ({"invited": np.ones(6, bool), "weight": np.full(6, np.nan)}, "invites client 2, which is not available"),
    ],
    ids=[
        "absent",
        "last",
        "uninvited",
        "infinite",
        "nan",
        "nan-absent",
        "asked",
        "many-asked",
        "many",
        "absent-many",
        "several",
    ],
)
def test_every_broken_rule_is_named(decision, words):
    assert fault(**decision) == f"Policy.decide: {words}"


@part
class Forgetful(Policy):
    """Invites a client whether or not it is available, from the round `since` on."""

    since: int = 0

    def init(self, population):
        return ()

    def decide(self, state, seen):
        third = jnp.arange(len(seen.available)) == 3
        invited = seen.available | (third & (seen.round >= self.since))
        return Decision(invited, jnp.where(invited, 0.1, 0)), state


@pytest.fixture(scope="module")
def away():
    """Client 3 is away in rounds 3, 6, 9, …"""
    there = np.ones((30, 12), bool)
    there[2::3, 3] = False
    return Trace(there)


def test_an_absent_client_that_is_invited_ends_the_run(blobs, away, tmp_path):
    method = fedtide.compose(fedavg(rate=0.1), participation=Forgetful(since=4))
    options = {"rounds": 8, "seeds": [5, 7], "evaluate_every": 4}
    message = r"^mine, seed 5, round 6: Forgetful.decide: invites client 3, which is not available$"
    with pytest.raises(FedtideError, match=message):
        fedtide.simulate(blobs, away, {"mine": method}, **options, out=tmp_path / "run")
    assert not (tmp_path / "run" / "rounds.parquet").exists()
    with pytest.raises(FedtideError, match="seed 5, round 6: Forgetful"):
        fedtide.sweep(blobs, away, [method, method], **options)


def test_a_real_federation_refuses_it_too(blobs):
    method = fedtide.compose(fedavg(rate=0.1), participation=Forgetful())
    coordinator = Coordinator(method, population_of(blobs), initial_model(blobs))
    everybody = np.ones(12, bool)
    assert coordinator.decide(coordinator.begin(0, everybody)).invited.all()
    with pytest.raises(FedtideError, match=r"^round 2: Forgetful\.decide: invites client 3, which is not available$"):
        coordinator.decide(coordinator.begin(1, np.arange(12) != 3))


@part
class Odd(Policy):
    """Wrong in one of several ways."""

    way: str

    def init(self, population):
        return jnp.zeros(3)

    def candidates(self, state, seen):
        return seen.available.astype(int)

    @property
    def needs_losses(self):
        return "minibatch" if self.way == "candidates" else None

    def decide(self, state, seen):
        invited, weight = seen.available, jnp.where(seen.available, 0.1, 0)
        return {
            "short": (Decision(invited[:3], weight[:3]), state),
            "numbers": (Decision(invited.astype(int), weight), state),
            "scalar": (Decision(invited, 0.1), state),  # pyright: ignore[reportArgumentType]
            "forgotten": Decision(invited, weight),
            "nothing": None,
            "no decision": ((invited, weight), state),
            "structure": (Decision(invited, weight), None),
            "shape": (Decision(invited, weight), state[:2]),
            "type": (Decision(invited, weight), state.astype(int)),
        }.get(self.way, (Decision(invited, weight), state))


WAYS = {
    "short": "decide: invited is bool[3]; must be bool[12]",
    "numbers": "decide: invited is int32[12]; must be bool[12]",
    "scalar": "decide: weight is float32[]; must be float[12]",
    "forgotten": "decide: returns Decision(bool[12], float32[12]); must be a pair (Decision, state)",
    "nothing": "decide: returns None; must be a pair (Decision, state)",
    "no decision": "decide: returns (bool[12], float32[12]); must be Decision",
    "structure": "decide: the state is None; must be as before, float32[3]",
    "shape": "decide: the state is float32[2]; must be as before, float32[3]",
    "type": "decide: the state is int32[3]; must be as before, float32[3]",
    "candidates": "candidates: the mask is int32[12]; must be bool[12]",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_policy_must_return_what_it_should(way, blobs, chains):
    with pytest.raises(FedtideError) as raised:
        fedtide.simulate(blobs, chains, fedtide.compose(fedavg(), participation=Odd(way)), rounds=4)
    assert str(raised.value) == f"Odd.{WAYS[way]}"


@part
class OddEstimator(Blind):
    def update(self, state, available):
        return Estimate(jnp.zeros(2), jnp.zeros(2)), state


@part
class OddSolver(Sgd):
    def train(self, w, task, row, shared):
        return Sgd.train(self, w, task, row, shared)._replace(loss=w)


@part
class OwnSolver(Local):
    """Without what `Local.first_rate` looks at."""

    step: float = 0.1
    work: Work = Steps(1, 4)

    def train(self, w, task, row, shared):
        loss, gradient = task.gradient(w, 0)
        return Trained(w - self.step * gradient, loss, task.steps, self.step, self.step, row)


@part
class OddRate(OwnSolver):
    def first_rate(self, task, shared):
        return jnp.ones(2)


@part
class OddAggregation(WeightedSum):
    def combine(self, state, cohort, updates):
        return updates.delta[0, 1:], state


@part
class OddServer(Optimiser):
    def step(self, state, w, direction):
        return w[:-1], state


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"estimator": OddEstimator()}, "OddEstimator.update: availability is float32[2]; must be float[12]"),
        ({"solver": OddSolver()}, "OddSolver.train: loss is float32[9]; must be float[]"),
        (
            {"solver": OwnSolver(), "aggregation": LatestUpdates()},
            "OwnSolver.first_rate: missing; must be the learning rate of a client's first step",
        ),
        (
            {"solver": OddRate(), "aggregation": LatestUpdates()},
            "OddRate.first_rate: the rate is float32[2]; must be float[12]",
        ),
        (
            {"aggregation": OddAggregation()},
            "OddAggregation.combine: the direction is float32[8]; must be float32[9]",
        ),
        ({"server": OddServer()}, "OddServer.step: the model is float32[8]; must be float32[9]"),
    ],
    ids=["estimator", "solver", "no rate", "odd rate", "aggregation", "server"],
)
def test_so_must_all_other_parts(parts, words, blobs, chains):
    with pytest.raises(FedtideError) as raised:
        fedtide.simulate(blobs, chains, fedtide.compose(fedavg(), **parts), rounds=4)
    assert str(raised.value) == words


@pytest.mark.parametrize("name", [name for name, entry in CATALOGUE.items() if entry.facts.needs_losses])
def test_losses_that_are_not_finite_break_no_rule(name, blobs, chains):
    """A model that diverges is the run's own affair: it is reported as such, whatever the policy makes of NaN."""
    with pytest.warns(RuntimeWarning, match="diverged"):
        found = fedtide.simulate(blobs, chains, {name: CATALOGUE[name].build(rate=1e30)}, rounds=8, evaluate_every=4)
    assert not np.isfinite(found.rounds["objective"].to_numpy()[-1])


class Bare(Policy):
    def decide(self, state, observation):
        return Decision(observation.available, jnp.where(observation.available, 1.0, 0)), state


@part
class WithoutInit:
    def decide(self, state, observation):
        raise NotImplementedError


@part
class WithKey(Bare):
    def init(self, population):
        return jax.random.key(0)


@pytest.mark.parametrize(
    ("policy", "line"),
    [
        (Bare(), "participation = 'Bare': must be a part: decorate its class with @fedtide.part"),
        (WithoutInit(), "participation = WithoutInit(): must be a participation policy such as Everyone(), "
                        "with a method init"),
        (WithKey(), "WithKey.init: the state holds a PRNG key; use the random numbers of a stream, such as "
                    "observation.stream, in place of keys"),
    ],
)  # fmt: skip
def test_what_is_missing_in_a_part_of_one_s_own_is_named(policy, line, blobs, chains):
    with pytest.raises(FedtideError) as raised:
        fedtide.simulate(blobs, chains, fedtide.compose(fedavg(), participation=policy), rounds=1)
    assert str(raised.value) == line


def test_a_process_that_is_no_part_is_named(blobs):
    class Always:
        clients, availability, correlation = 12, None, None

        def init(self, stream):
            return ()

        def step(self, state, stream):
            return jnp.ones(12, bool), state

    with pytest.raises(FedtideError, match=r"^availability = 'Always': must be a part: decorate its class with @fed"):
        fedtide.simulate(blobs, Always(), fedavg(), rounds=1)  # pyright: ignore[reportArgumentType]
