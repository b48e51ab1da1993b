"""Estimators of availability (π̂) and of its correlation (λ̂)."""

from fedtide.estimators.bayesian import Bayesian
from fedtide.estimators.blind import Blind
from fedtide.estimators.discounted import Discounted
from fedtide.estimators.interval import Interval
from fedtide.estimators.oracle import Oracle

__all__ = ["Bayesian", "Blind", "Discounted", "Interval", "Oracle"]
