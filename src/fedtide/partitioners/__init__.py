"""Partitioners: whose are which samples? Each returns one array of sample numbers a client."""

from fedtide.partitioners.dirichlet import dirichlet
from fedtide.partitioners.iid import iid

__all__ = ["dirichlet", "iid"]
