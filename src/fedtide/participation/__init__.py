"""Participation policies: which clients to invite in a round, and with what weights."""

from fedtide.participation.correlation_aware import CorrelationAware, correlation_aware_weights
from fedtide.participation.cyclic_groups import CyclicGroups
from fedtide.participation.everyone import Everyone
from fedtide.participation.graph_spread import GraphSpread
from fedtide.participation.highest_loss import HighestLoss
from fedtide.participation.least_available import LeastAvailable
from fedtide.participation.least_recent import LeastRecent
from fedtide.participation.lowest_loss import LowestLoss
from fedtide.participation.most_available import MostAvailable
from fedtide.participation.normalised_inverse import NormalisedInverse
from fedtide.participation.rate_tracking import RateTracking
from fedtide.participation.sample_with_replacement import SampleWithReplacement
from fedtide.participation.separated import Separated
from fedtide.participation.subsample import SampleFirst, Subsample
from fedtide.participation.unbiased import Unbiased
from fedtide.participation.uniform_sample import UniformSample

__all__ = [
    "CorrelationAware",
    "CyclicGroups",
    "Everyone",
    "GraphSpread",
    "HighestLoss",
    "LeastAvailable",
    "LeastRecent",
    "LowestLoss",
    "MostAvailable",
    "NormalisedInverse",
    "RateTracking",
    "SampleFirst",
    "SampleWithReplacement",
    "Separated",
    "Subsample",
    "Unbiased",
    "UniformSample",
    "correlation_aware_weights",
]
