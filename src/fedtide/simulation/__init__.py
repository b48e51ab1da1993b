"""Simulation: whole experiments as compiled programs."""

from fedtide.simulation.result import Result
from fedtide.simulation.simulate import simulate
from fedtide.simulation.sweep import sweep

__all__ = ["Result", "simulate", "sweep"]
