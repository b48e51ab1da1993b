"""The truth."""

from jax import Array

from fedtide.errors import FedtideError
from fedtide.types import Estimate, Population, part


@part
class Oracle:
    """π̂ = π and λ̂ = λ: what an estimator would know after infinitely many rounds."""

    @property
    def knows(self) -> tuple[str, ...]:
        return ("availability", "correlation")

    def init(self, population: Population) -> Estimate:
        if population.availability is None or population.correlation is None:
            raise FedtideError(
                "estimator Oracle: this availability process has no stationary π and λ to reveal; use Bayesian"
            )
        return Estimate(population.availability, population.correlation)

    def update(self, state: Estimate, available: Array) -> tuple[Estimate, Estimate]:
        return state, state
