"""Declarations of parts for predictions: the `in_theory` of each kind returns one of these.

The base class of each kind declares that the theory does not cover the part.
"""

import math
from typing import NamedTuple

import numpy as np

NEVER = 1e-12  # smaller availabilities count as 0


class CaFed(NamedTuple):
    """The settings of CA-Fed that decide which clients it excludes."""

    kappa_squared: float = 1.0
    threshold: float = 0.0
    strict: bool = False
    oracle: bool = False  # F*_k known; otherwise taken as 0


class Training(NamedTuple):
    """Plain local SGD and a plain server step."""

    rate: float  # η
    server_rate: float  # η_s
    local_steps: float  # E, the mean if clients differ
    samples: float  # per client per round: E · batch; infinite for full gradients

    @property
    def step(self) -> float:
        """h = η_s η E."""
        return self.rate * self.server_rate * self.local_steps


class Weighting(NamedTuple):
    """How a policy, or a whole method, weights the available clients, as far as the theory covers it."""

    score: np.ndarray | None = None  # [N] weight s_k of an available client; None if it is not constant
    normalised: bool = False  # divided by the sum over the available clients
    factor: np.ndarray | None = None  # [N] factor applied after that, e.g. for more local steps
    ca_fed: CaFed | None = None  # score α/π, without the clients that CA-Fed excludes
    training: Training | None = None  # None if steps are not plain SGD
    optimistic: bool = False  # some noise is not included: the predicted error is too low
    note: str = ""  # what is not predicted, and why

    def sampled(self) -> "Weighting":
        """The same weighting for a uniform sample of the clients."""
        return self._replace(
            optimistic=True, note=f"{self.note} Sampling adds noise, which the predicted path omits.".lstrip()
        )


class LocalWork(NamedTuple):
    """The local work of clients in a round."""

    steps: np.ndarray | None = None  # [N] local steps of each client; None if they are not constant
    batch: float = math.inf  # independent samples per step; infinite if steps use each sample once
    seeded: bool = False  # the number of steps of each client is drawn once per seed


class Descent(NamedTuple):
    """How a solver or a server follows the direction it receives."""

    rate: float | None = None  # of plain steps at a constant rate; None if only the limit is known
    factors: np.ndarray | None = None  # [N] of the clients' rates; None if these are equal
    corrected: bool = False  # steps are corrected towards the direction of all clients
    unfollowed: str = ""  # why not even the limit is known


class Combination(NamedTuple):
    """How an aggregation rule combines updates."""

    normalised: bool = False  # by the number of local steps
    trust: float | None = None  # weight β of all clients' latest updates; None without such a memory
    unfollowed: str = ""  # why not even the limit is known


class Belief(NamedTuple):
    """The limit of an estimator of availability: by default the true value."""

    cutoff: int | None = None  # cap on the gap between two participations, in rounds
    settles: bool = True


def inverse_availability(importance: np.ndarray, availability: np.ndarray) -> np.ndarray:
    """α/π; 0 for clients that are never available."""
    return np.where(availability > NEVER, importance / availability, 0)


def settled(importance: np.ndarray, availability: np.ndarray) -> Weighting:
    """The weighting of a policy that estimates the participation rates of its clients and divides by them."""
    note = "Treated as unbiased, as it is once its rates converge; the predicted path omits the noise of its choices."
    return Weighting(inverse_availability(importance, availability), optimistic=True, note=note)
