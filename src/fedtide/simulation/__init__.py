"""Simulation: whole experiments as compiled programs."""

from fedtide.simulation.result import Result
from fedtide.simulation.simulate import simulate

__all__ = ["Result", "simulate"]
