"""Solvers: what a client does with the model it receives."""

from fedtide.solvers.adaptive import Adaptive
from fedtide.solvers.adaptive_steps import AdaptiveSteps
from fedtide.solvers.control_variate import ControlVariate
from fedtide.solvers.echo import Echo
from fedtide.solvers.gradient_tracking import GradientTracking
from fedtide.solvers.momentum import Momentum
from fedtide.solvers.own_model import OwnModel
from fedtide.solvers.periodic_control_variate import PeriodicControlVariate
from fedtide.solvers.proximal import Proximal
from fedtide.solvers.random_update import RandomUpdate
from fedtide.solvers.sgd import Sgd
from fedtide.solvers.sign_flip import SignFlip
from fedtide.solvers.tail_risk import TailRisk
from fedtide.solvers.whole_model import WholeModel

__all__ = [
    "Adaptive",
    "AdaptiveSteps",
    "ControlVariate",
    "Echo",
    "GradientTracking",
    "Momentum",
    "OwnModel",
    "PeriodicControlVariate",
    "Proximal",
    "RandomUpdate",
    "Sgd",
    "SignFlip",
    "TailRisk",
    "WholeModel",
]
