"""What theory functions ask of their arrays."""

from typing import Any

import numpy as np

from fedtide.errors import InvalidInput, require


def numbers(field: str, value: Any) -> np.ndarray:
    """The value as finite float64."""
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(field, value, "numbers") from None
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
    array = vector(field, value, clients)
    require(bool(((array > 0) & (array <= 1)).all()), field, value, "in (0, 1]")
    return array


def correlations(field: str, value: Any, clients: int | None = None) -> np.ndarray:
    """Lag-1 correlations λ in [−1, 1)."""
    array = vector(field, value, clients)
    require(bool(((array >= -1) & (array < 1)).all()), field, value, "in [−1, 1)")
    return array


def at_least(field: str, value: float, low: float) -> float:
    """A finite number, `low` or more."""
    require(bool(np.isfinite(value)) and value >= low, field, value, f"{low:g} or more")
    return float(value)


def positive(field: str, value: float) -> float:
    """A finite number above 0."""
    require(bool(np.isfinite(value)) and value > 0, field, value, "positive")
    return float(value)
