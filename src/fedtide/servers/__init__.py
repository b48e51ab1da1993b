"""Servers: one step of the model along the direction."""

from fedtide.servers.adaptive import PublishedOptimiser
from fedtide.servers.amplified import Amplified
from fedtide.servers.averaged import AverageOfLastTwo
from fedtide.servers.optimiser import Optimiser
from fedtide.servers.projected import Projected

__all__ = ["Amplified", "AverageOfLastTwo", "Optimiser", "Projected", "PublishedOptimiser"]
