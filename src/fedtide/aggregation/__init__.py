"""Aggregation rules: one direction from many updates."""

from fedtide.aggregation.accumulated import Accumulated
from fedtide.aggregation.age_weighted import AgeWeighted
from fedtide.aggregation.cluster_memory import ClusterMemory
from fedtide.aggregation.extrapolated import Extrapolated
from fedtide.aggregation.latest_updates import LatestUpdates
from fedtide.aggregation.normalised import Normalised
from fedtide.aggregation.weighted_sum import WeightedSum

__all__ = ["Accumulated", "AgeWeighted", "ClusterMemory", "Extrapolated", "LatestUpdates", "Normalised", "WeightedSum"]
