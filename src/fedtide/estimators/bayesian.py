"""Beta posteriors of availability and of transitions."""

import dataclasses
from typing import ClassVar

from jax import Array

from fedtide.errors import number
from fedtide.estimators.counts import Counts, PseudoCounts, count, no_counts, posterior_mean
from fedtide.types import Estimate, Population, part


@part
class Bayesian:
    """π̂_k = (rounds available + n) / (rounds + n + m); λ̂_k = P̂(on|on) + P̂(off|off) − 1 from conditional counts.

    Beta priors, the same for all clients or one for each: (`on`, `off`) = (n, m) for π; (`on_stay`, `on_leave`) and
    (`off_stay`, `off_leave`) for the two rows of the transition matrix.
    A row is divided by the visits to its state, not by time. Consistent for any ergodic two-state chain. Observations
    from before the first round are added by updating with them (`simulate(history=…)`).

    Reference: Rodio et al., "Federated learning under heterogeneous and correlated client availability",
    IEEE/ACM ToN 2024, Sec. IV-B and Appendix F3.
    """

    on: Array | float = 1.0
    off: Array | float = 1.0
    on_stay: Array | float = 1.0
    on_leave: Array | float = 1.0
    off_stay: Array | float = 1.0
    off_leave: Array | float = 1.0

    def __post_init__(self):
        for field in dataclasses.fields(self):
            allowed = "a positive pseudo-count, or one for each client"
            number(f"estimator.{field.name}", getattr(self, field.name), above=0, allowed=allowed)

    knows: ClassVar[tuple[str, ...]] = ("availability", "correlation")

    def init(self, population: Population) -> Counts:
        return no_counts(len(population.importance))

    def update(self, state: Counts, available: Array) -> tuple[Estimate, Counts]:
        state = count(state, available, keep=1.0)
        rows = PseudoCounts(self.on_stay, self.on_leave), PseudoCounts(self.off_stay, self.off_leave)
        return posterior_mean(state, PseudoCounts(self.on, self.off), *rows), state
