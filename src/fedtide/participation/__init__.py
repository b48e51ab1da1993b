"""Participation policies: whom to invite this round, and with what weight."""

from fedtide.participation.correlation_aware import CorrelationAware, correlation_aware_weights
from fedtide.participation.everyone import Everyone
from fedtide.participation.most_available import MostAvailable
from fedtide.participation.normalised_inverse import NormalisedInverse
from fedtide.participation.rate_tracking import RateTracking
from fedtide.participation.sample_with_replacement import SampleWithReplacement
from fedtide.participation.subsample import Subsample
from fedtide.participation.unbiased import Unbiased
from fedtide.participation.uniform_sample import UniformSample

__all__ = [
    "CorrelationAware",
    "Everyone",
    "MostAvailable",
    "NormalisedInverse",
    "RateTracking",
    "SampleWithReplacement",
    "Subsample",
    "Unbiased",
    "UniformSample",
    "correlation_aware_weights",
]
