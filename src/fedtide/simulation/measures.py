"""What is measured on a model, besides its loss on each client."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from fedtide.streams import Stream
from fedtide.types import Estimate, Evaluation, Observation, Participation, Population, State

TAIL = 0.1
"""The share of the clients' importance that `tail_loss` looks at."""

_DRAWS = 16  # selections that a skew is averaged over


class EvaluationRecord(NamedTuple):
    """The model after a round."""

    objective: Array  # [] F(w) = Σ α_k F_k(w)
    tail_loss: Array  # [] mean F_k(w) over the worst tenth of the importance (CVaR)
    test_loss: Array  # [] α-weighted over clients with test samples
    test_accuracy: Array  # []
    worst_decile: Array  # [] mean accuracy of the tenth of the clients that are served worst
    skew: Array  # [] how far the selection leans towards large losses; nan where it does not look at them
    class_accuracy: Array  # [classes] over all test samples of a class; [0] where the problem has none


SCALARS = tuple(name for name in EvaluationRecord._fields if name != "class_accuracy")
"""The fields that are one number an evaluation: the columns of the table of rounds."""


def summarise(by_client: Evaluation, importance: Array, skew: Array | None = None) -> EvaluationRecord:
    """Importance-weighted means, the tail, and the mean accuracy of the worst-served tenth of the clients."""
    tested = by_client.tested
    weight = jnp.where(tested, importance, 0)

    def weighted(values: Array) -> Array:
        # Where all are tested, a diverged client's value counts: a mean that skipped it would look fine.
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
    """The mean of the largest values over a mass of `level`, in (0, 1]: the exact CVaR of a discrete law.

    Values in descending order; the last one reached counts with the mass that is left. At level 1 it is the mean, at a
    level not above the largest value's weight it is the maximum.

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
    """ρ(S, w) = E[Σ_S q_k (F_k(w) − F*_k) / Σ_S q_k] / Σ α_k (F_k(w) − F*_k), were everybody available.

    1 for a selection that does not look at losses; its minimum over w (ρ̄) divides the convergence bound and its value
    at the optimum (ρ̃) sets the remaining bias. The expectation is a mean over a few draws.

    Reference: Cho, Wang and Joshi, "Towards understanding biased client selection in federated learning", AISTATS 2022.
    """
    assert population.optimum is not None
    gap = train_loss - population.optimum
    clients = len(gap)
    everybody = jnp.ones(clients, bool)
    unknown = Estimate(*(jnp.full(clients, jnp.nan),) * 2)

    def draw(i: Array) -> Array:
        # Rounds of a stream of their own purpose: no draw is shared with the simulation.
        own = stream._replace(round=jnp.asarray(stream.round, jnp.uint32) * _DRAWS + i)
        nobody = jnp.zeros(clients, bool)
        seen = Observation(everybody, unknown, jnp.zeros_like(gap), nobody, jnp.asarray(stream.round), own)
        asked = policy.candidates(state, seen) if policy.needs_losses else nobody
        seen = seen._replace(asked=asked, loss=jnp.where(asked, train_loss, 0))
        weight = policy.decide(state, seen)[0].weight
        return (weight * gap).sum() / weight.sum()

    return jax.lax.map(draw, jnp.arange(_DRAWS, dtype=jnp.uint32)).mean() / (population.importance * gap).sum()
