"""Simulation: experiments as compiled programs."""

from fedtide.simulation.cores import use_all_cores
from fedtide.simulation.result import Result
from fedtide.simulation.simulate import simulate
from fedtide.simulation.sweep import sweep

__all__ = ["Result", "simulate", "sweep", "use_all_cores"]
