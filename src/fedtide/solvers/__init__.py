"""Solvers: what a client does with the model it receives."""

from fedtide.solvers.momentum import Momentum
from fedtide.solvers.proximal import Proximal
from fedtide.solvers.sgd import Sgd

__all__ = ["Momentum", "Proximal", "Sgd"]
