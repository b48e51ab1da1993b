"""Reading of availability logs."""

from fedtide.fleet.reading.read import read

__all__ = ["read"]
