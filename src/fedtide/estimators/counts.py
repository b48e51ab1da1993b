"""Counts of available rounds and of transitions, shared by the estimators that count."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from fedtide.types import Estimate


class Counts(NamedTuple):
    """(Possibly discounted) numbers of rounds and of transitions."""

    rounds: Array  # [] rounds observed
    present: Array  # [N] rounds available
    from_on: Array  # [N] transitions from available
    on_on: Array  # [N] transitions from available to available
    from_off: Array  # [N] transitions from unavailable
    off_off: Array  # [N] transitions from unavailable to unavailable
    previous: Array  # [N] bool: available in the last round


def no_counts(clients: int) -> Counts:
    zero = jnp.zeros(clients)
    return Counts(jnp.zeros(()), zero, zero, zero, zero, zero, jnp.zeros(clients, bool))


def count(counts: Counts, available: Array, keep: Array | float) -> Counts:
    """Adds one round; earlier counts are multiplied by `keep` (1 keeps them as they are)."""
    now = available.astype(counts.present.dtype)
    transition = (counts.rounds > 0).astype(now.dtype)
    was_on = transition * counts.previous
    was_off = transition * ~counts.previous
    return Counts(
        rounds=keep * counts.rounds + 1,
        present=keep * counts.present + now,
        from_on=keep * counts.from_on + was_on,
        on_on=keep * counts.on_on + was_on * now,
        from_off=keep * counts.from_off + was_off,
        off_off=keep * counts.off_off + was_off * (1 - now),
        previous=available,
    )


class PseudoCounts(NamedTuple):
    """Pseudo-counts of a beta prior, for and against an event."""

    yes: Array | float
    no: Array | float

    def mean(self, events: Array, trials: Array) -> Array:
        """The posterior mean after `events` in `trials`."""
        return (events + self.yes) / (trials + self.yes + self.no)


def posterior_mean(counts: Counts, present: PseudoCounts, on_stay: PseudoCounts, off_stay: PseudoCounts) -> Estimate:
    """Means of beta posteriors: π from available rounds, each row of the transition matrix from its own visits.

    π̂ = (present + n) / (rounds + n + m) and λ̂ = P̂(on|on) + P̂(off|off) − 1.
    """
    availability = present.mean(counts.present, counts.rounds)
    on_on = on_stay.mean(counts.on_on, counts.from_on)
    off_off = off_stay.mean(counts.off_off, counts.from_off)
    return Estimate(availability, on_on + off_off - 1)
