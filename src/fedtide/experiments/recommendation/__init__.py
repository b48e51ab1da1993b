"""Which method for this fleet? Candidates, tuned alike, on the fleet's record and on fleets like it."""

from fedtide.experiments.recommendation.limits import Constraints
from fedtide.experiments.recommendation.recommending import Recommendation, recommend

__all__ = ["Constraints", "Recommendation", "recommend"]
