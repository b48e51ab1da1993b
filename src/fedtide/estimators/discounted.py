"""Beta posteriors of discounted counts."""

from typing import ClassVar

from jax import Array

from fedtide.declared import Belief
from fedtide.errors import number
from fedtide.estimators.counts import Counts, PseudoCounts, count, no_counts, posterior_mean
from fedtide.types import Estimate, Population, part


@part
class Discounted:
    """Like `Bayesian`, but an observation's weight halves every `half_life` rounds: for drifting availability.

    With half-life h the effective number of rounds is about h / ln 2. Never consistent (its variance does not vanish);
    it follows a change within a few half-lives.
    """

    half_life: float = 100.0
    prior: float = 1.0

    def __post_init__(self):
        number("estimator.half_life", self.half_life, above=0, infinite=True, allowed="a positive number of rounds")
        number("estimator.prior", self.prior, above=0, allowed="a positive pseudo-count")

    knows: ClassVar[tuple[str, ...]] = ("availability", "correlation")

    def in_theory(self) -> Belief:
        return Belief(settles=False)

    def init(self, population: Population) -> Counts:
        return no_counts(len(population.importance))

    def update(self, state: Counts, available: Array) -> tuple[Estimate, Counts]:
        state = count(state, available, keep=0.5 ** (1 / self.half_life))
        prior = PseudoCounts(self.prior, self.prior)
        return posterior_mean(state, prior, prior, prior), state
