"""Aggregation: one direction out of many updates."""

from fedtide.aggregation.weighted_sum import WeightedSum

__all__ = ["WeightedSum"]
