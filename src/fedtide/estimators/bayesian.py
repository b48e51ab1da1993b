"""Beta posteriors on presence and on transitions."""

from jax import Array

from fedtide.errors import require
from fedtide.estimators.counts import Counts, count, no_counts, posterior_mean
from fedtide.types import Estimate, Population, part


@part
class Bayesian:
    """π̂_k = (rounds present + n) / (rounds + n + m); λ̂_k = P̂(on|on) + P̂(off|off) − 1 from conditional counts.

    Beta priors: (`on`, `off`) = (n, m) for π, (`stay`, `leave`) for each row of the two-state transition matrix.
    A row is divided by the visits to its state, not by time. Consistent for any ergodic two-state chain. Earlier
    observations enter by updating before the first round (`simulate(history=…)`).

    Reference: Rodio et al., "Federated learning under heterogeneous and correlated client availability",
    IEEE/ACM ToN 2024, Sec. V.
    """

    on: float = 1.0
    off: float = 1.0
    stay: float = 1.0
    leave: float = 1.0

    def __post_init__(self):
        for name in ("on", "off", "stay", "leave"):
            require(getattr(self, name) > 0, f"estimator.{name}", getattr(self, name), "a positive pseudo-count")

    def init(self, population: Population) -> Counts:
        return no_counts(len(population.importance))

    def update(self, state: Counts, available: Array) -> tuple[Estimate, Counts]:
        state = count(state, available, keep=1.0)
        return posterior_mean(state, self.on, self.off, self.stay, self.leave), state
