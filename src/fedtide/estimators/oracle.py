"""The true availability."""

from typing import ClassVar

from jax import Array

from fedtide.errors import FedtideError
from fedtide.types import Estimate, Population, part


@part
class Oracle:
    """π̂ = π and λ̂ = λ: the limit of a consistent estimator. Its state is constant: the truth enters by `init`
    only."""

    knows: ClassVar[tuple[str, ...]] = ("availability", "correlation")

    def init(self, population: Population) -> Estimate:
        if population.availability is None or population.correlation is None:
            raise FedtideError(
                "estimator Oracle: this availability process has no known stationary π and λ; use one such as Bayesian"
            )
        return Estimate(population.availability, population.correlation)

    def update(self, state: Estimate, available: Array) -> tuple[Estimate, Estimate]:
        return state, state
