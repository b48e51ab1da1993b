"""Simulation: experiments as compiled programs."""

from fedtide.simulation.callbacks import Callback, Metrics, early_stopping
from fedtide.simulation.cores import use_all_cores
from fedtide.simulation.result import Result
from fedtide.simulation.simulate import simulate
from fedtide.simulation.sweep import sweep

__all__ = ["Callback", "Metrics", "Result", "early_stopping", "simulate", "sweep", "use_all_cores"]
