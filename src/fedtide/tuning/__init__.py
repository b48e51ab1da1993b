"""Tuning: the same number of trials for every method."""

from fedtide.tuning.tune import Tuning, tune

__all__ = ["Tuning", "tune"]
