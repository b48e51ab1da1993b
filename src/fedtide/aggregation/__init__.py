"""Aggregation rules: one direction from many updates."""

from fedtide.aggregation.accumulated import Accumulated
from fedtide.aggregation.age_weighted import AgeWeighted
from fedtide.aggregation.cluster_memory import ClusterMemory
from fedtide.aggregation.colluding import Colluding
from fedtide.aggregation.coordinate_median import CoordinateMedian
from fedtide.aggregation.extrapolated import Extrapolated
from fedtide.aggregation.geometric_median import GeometricMedian
from fedtide.aggregation.krum import Krum
from fedtide.aggregation.latest_updates import LatestUpdates
from fedtide.aggregation.norm_clipped import NormClipped
from fedtide.aggregation.normalised import Normalised
from fedtide.aggregation.trimmed_mean import TrimmedMean
from fedtide.aggregation.weighted_sum import WeightedSum

__all__ = [
    "Accumulated",
    "AgeWeighted",
    "ClusterMemory",
    "Colluding",
    "CoordinateMedian",
    "Extrapolated",
    "GeometricMedian",
    "Krum",
    "LatestUpdates",
    "NormClipped",
    "Normalised",
    "TrimmedMean",
    "WeightedSum",
]
