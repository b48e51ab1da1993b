"""Checks of array arguments."""

from typing import Any

import numpy as np

from fedtide.errors import floats, number, require


def numbers(field: str, value: Any) -> np.ndarray:
    """The value as finite float64."""
    array = floats(field, value)
    require(bool(np.isfinite(array).all()), field, value, "finite")
    return array


def vector(field: str, value: Any, clients: int | None = None) -> np.ndarray:
    """One finite number for each client."""
    array = numbers(field, value)
    if array.ndim == 0 and clients is not None:
        array = np.full(clients, float(array))
    require(array.ndim == 1 and len(array) > 0, field, value, "one number for each client")
    require(clients in (None, len(array)), field, f"{len(array)} entries", f"one for each of {clients} clients")
    return array


def weights(field: str, value: Any, clients: int | None = None) -> np.ndarray:
    """Numbers ≥ 0, not all 0."""
    array = vector(field, value, clients)
    require(bool((array >= 0).all() and array.any()), field, value, "≥ 0, not all 0")
    return array


def shares(field: str, value: Any, clients: int | None = None) -> np.ndarray:
    """Numbers ≥ 0 with sum 1."""
    array = weights(field, value, clients)
    require(abs(array.sum() - 1) < 1e-6, field, value, "≥ 0 with sum 1")
    return array / array.sum()


def rates(field: str, value: Any, clients: int | None = None) -> np.ndarray:
    """Availabilities π in (0, 1]."""
    return number(field, vector(field, value, clients), above=0, high=1)
