"""Servers: one step of the model along the direction."""

from fedtide.servers.adaptive import Adaptive
from fedtide.servers.amplified import Amplified
from fedtide.servers.averaged import AverageOfLastTwo
from fedtide.servers.optimiser import Optimiser
from fedtide.servers.projected import Projected

__all__ = ["Adaptive", "Amplified", "AverageOfLastTwo", "Optimiser", "Projected"]
