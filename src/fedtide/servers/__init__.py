"""Servers: one step of the model along the direction."""

from fedtide.servers.optimiser import Optimiser
from fedtide.servers.projected import Projected

__all__ = ["Optimiser", "Projected"]
