"""Bounds of the papers, term by term, as printed and repaired."""

from fedtide.theory.bounds.base import Bound
from fedtide.theory.bounds.convergence import theorem2
from fedtide.theory.bounds.cyclic import cyclic_error, cyclic_order
from fedtide.theory.bounds.fedavg import fedavg_error, fedvarp_error
from fedtide.theory.bounds.selection import Skew, selection_error, skew
from fedtide.theory.bounds.trade_off import theorem1, theorem3

__all__ = [
    "Bound",
    "Skew",
    "cyclic_error",
    "cyclic_order",
    "fedavg_error",
    "fedvarp_error",
    "selection_error",
    "skew",
    "theorem1",
    "theorem2",
    "theorem3",
]
