"""Everyone who is available."""

from jax import Array

from fedtide.errors import check_one_of
from fedtide.participation.base import Weighed, Weights, weigh
from fedtide.types import Decision, Observation, Population, part


@part
class Everyone(Weighed):
    """All available clients A, weighed by `ratio` α_k / Σ_A α, `fixed` α_k (absent clients count 0), `equal` 1/|A| or
    `scaled` α_k N/|A|.

    Biased towards the available: with fixed weights the long-run objective is Σ p_k F_k, p_k ∝ π_k α_k.
    Unbiased only when availability is the same for all (fixed weights) or nobody is ever absent.

    Reference: McMahan et al., "Communication-efficient learning of deep networks", AISTATS 2017.
    """

    weights: Weights = "ratio"

    def __post_init__(self):
        check_one_of("participation.weights", self.weights, Weights)

    def init(self, population: Population) -> Array:
        return population.importance

    def decide(self, state: Array, seen: Observation) -> tuple[Decision, Array]:
        return Decision(seen.available, weigh(self.weights, state, seen.available)), state
