"""Which method to use on a fleet: candidates with equal tuning, on its record and on generated fleets."""

from fedtide.fleet.recommendation.limits import Constraints
from fedtide.fleet.recommendation.recommend import Recommendation, recommend

__all__ = ["Constraints", "Recommendation", "recommend"]
