"""Measures of a model, from its evaluation on each client."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from fedtide.streams import Stream
from fedtide.types import Estimate, Evaluation, Observation, Participation, Population, State

TAIL = 0.1
"""The fraction of the clients' importance in `tail_loss`."""

_DRAWS = 16  # selections over which a skew is averaged


class EvaluationRecord(NamedTuple):
    """The evaluation of a model."""

    objective: Array  # [] F(w) = Σ α_k F_k(w)
    tail_loss: Array  # [] mean F_k(w) over the worst 10 % of the importance (CVaR)
    test_loss: Array  # [] α-weighted over clients with test samples
    test_accuracy: Array  # []
    worst_decile: Array  # [] mean accuracy of the 10 % of clients with the lowest accuracy
    skew: Array  # [] skew of the selection towards large losses; nan where it does not depend on them
    class_accuracy: Array  # [classes] over all test samples of a class; [0] where the problem has none


SCALARS = tuple(name for name in EvaluationRecord._fields if name != "class_accuracy")
"""The fields with one number per evaluation: columns of the table of rounds."""


def summarise(by_client: Evaluation, importance: Array, skew: Array | None = None) -> EvaluationRecord:
    """Importance-weighted means, the tail loss, and the mean accuracy of the worst 10 % of clients."""
    tested = by_client.tested
    weight = jnp.where(tested, importance, 0)

    def weighted(values: Array) -> Array:
        # A diverged client's value counts: a mean without it would hide the divergence.
        return jnp.where(tested, weight * values, 0).sum() / weight.sum()

    accuracy = jnp.where(tested, by_client.test_accuracy, jnp.inf)
    tenth = jnp.ceil(tested.sum() / 10)
    worst = jnp.where(jnp.arange(len(accuracy)) < tenth, jnp.sort(accuracy), 0).sum() / tenth
    return EvaluationRecord(
        objective=(importance * by_client.train_loss).sum(),
        tail_loss=cvar(by_client.train_loss, importance, TAIL),
        test_loss=weighted(by_client.test_loss),
        test_accuracy=weighted(by_client.test_accuracy),
        worst_decile=jnp.where(jnp.isnan(accuracy).any(), jnp.nan, worst),
        skew=jnp.asarray(jnp.nan) if skew is None else skew,
        class_accuracy=jnp.asarray(by_client.class_accuracy),
    )


def cvar(values: Array, weights: Array, level: Array | float) -> Array:
    """The mean of the largest values over a mass of `level`, in (0, 1]: the exact CVaR of a discrete distribution.

    Values in descending order; the last one counts with the remaining mass. At level 1 it is the mean, at a level not
    above the largest value's weight it is the maximum.

    Reference: Rockafellar and Uryasev, "Optimization of conditional value-at-risk", Journal of Risk 2000.
    """
    values, weights = jnp.asarray(values), jnp.asarray(weights)
    order = jnp.argsort(-values)
    weights = weights[order] / weights.sum()
    reached = jnp.cumsum(weights)
    mass = jnp.clip(level - (reached - weights), 0, weights)
    return jnp.where(mass > 0, mass * values[order], 0).sum() / mass.sum()


def selection_skew(
    policy: Participation, state: State, stream: Stream, train_loss: Array, population: Population
) -> Array:
    """ρ(S, w) = E[Σ_S q_k (F_k(w) − F*_k) / Σ_S q_k] / Σ α_k (F_k(w) − F*_k), with all clients available.

    1 for a selection independent of losses; its minimum over w (ρ̄) divides the convergence bound and its value at the
    optimum (ρ̃) determines the remaining bias. The expectation is estimated by the mean of a few draws.

    Reference: Cho, Wang and Joshi, "Towards understanding biased client selection in federated learning", AISTATS 2022.
    """
    assert population.optimum is not None
    gap = train_loss - population.optimum
    clients = len(gap)
    everyone = jnp.ones(clients, bool)
    unknown = Estimate(*(jnp.full(clients, jnp.nan),) * 2)

    def draw(i: Array) -> Array:
        # A stream with its own purpose: no draw is shared with the simulation.
        own = stream._replace(round=jnp.asarray(stream.round, jnp.uint32) * _DRAWS + i)
        none = jnp.zeros(clients, bool)
        t = jnp.asarray(stream.round)
        observation = Observation(everyone, unknown, jnp.zeros_like(gap), none, t, own, population)
        asked = policy.candidates(state, observation) if policy.needs_losses else none
        observation = observation._replace(asked=asked, loss=jnp.where(asked, train_loss, 0))
        weight = policy.decide(state, observation)[0].weight
        return (weight * gap).sum() / weight.sum()

    return jax.lax.map(draw, jnp.arange(_DRAWS, dtype=jnp.uint32)).mean() / (population.importance * gap).sum()
