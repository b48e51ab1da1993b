"""What the ledger of a long run teaches: the availability and its correlation that were played."""

import jax
import numpy as np
from flwr.app import Message

from fedtide.adapters.flower.messages import Reply, read_order, reply_message
from fedtide.adapters.ledger import Ledger, estimated
from fedtide.availability import Markov
from fedtide.simulation.trees import named

ROUNDS = 400
PI = np.array([0.2, 0.4, 0.5, 0.7, 0.9])
LAMBDA = np.array([0.5, 0.0, 0.8, 0.6, 0.3])
START = [np.zeros(2, np.float32)]


def quick(message: Message, context) -> Message:
    """A client that takes no time: it moves the model by a tenth."""
    order = read_order(message)
    said = Reply(order.kind, order.round, order.nonce, str(context.node_config["partition-id"]))
    numbers = {"examples": 10, "steps": 1, "loss": 1.0, "rate": 0.1}
    if order.kind != "train":
        return reply_message(said._replace(numbers=numbers), message)
    arrays = [np.asarray(array) * np.float32(0.9) + np.float32(0.1) for array in order.arrays]
    mass = {"mass": named(np.float32(0.1))}
    return reply_message(said._replace(numbers=numbers, arrays=arrays, parts=mass), message)


def test_the_ledger_teaches_what_was_played(federation):
    """Each error is below 4.5 standard deviations of the count that it comes from, and the prior's pull of 2 in T: of
    the ten, one is above with probability 10 × 7e-6 (another seed)."""
    presence = Markov(PI, LAMBDA).sample(3, ROUNDS)
    settings = {"rounds": ROUNDS, "round_seconds": 1.0, "importance": "uniform", "losses": "from-training"}
    made = federation(quick, 5, START, method__name="ca_fed", **settings)
    turn = {"t": -1}

    def listed():
        """The first look is the enrolment, then one a round."""
        shown = presence[turn["t"]] if turn["t"] >= 0 else [True] * 5
        turn["t"] += 1
        for node, here in zip(made.nodes, shown, strict=True):
            node.here = bool(here)
        return list(made.grid.nodes)

    made.grid.get_node_ids = listed
    session = made.serve()
    method, population = session.coordinator.method, session.coordinator.population
    with Ledger(f"{made.config['state']}/ledger.db") as ledger:
        np.testing.assert_array_equal(ledger.presence("run")[2], presence)
        estimate, state = estimated(ledger, "run", method.estimator, population)
    jax.tree.map(np.testing.assert_array_equal, state, session.coordinator.carry.estimator)  # it is what the run used
    # Var π̂ = π(1−π)(1+λ)/((1−λ)T); λ̂ = P̂(on|on) − P̂(on|off), each a share of the visits to its state.
    stay, arrive = LAMBDA + (1 - LAMBDA) * PI, (1 - LAMBDA) * PI
    spread = np.sqrt(PI * (1 - PI) * (1 + LAMBDA) / (1 - LAMBDA) / ROUNDS)
    visits = ROUNDS * np.minimum(PI, 1 - PI)
    slope = np.sqrt(stay * (1 - stay) / (PI * ROUNDS) + arrive * (1 - arrive) / ((1 - PI) * ROUNDS))
    assert (np.abs(estimate.availability - PI) < 4.5 * spread + 2 / ROUNDS).all()
    assert (np.abs(estimate.correlation - LAMBDA) < 4.5 * slope + 2 / visits).all()
    assert np.abs(np.asarray(estimate.availability)[[0, 4]] - [0.2, 0.9]).max() < 0.15  # the bands say something
