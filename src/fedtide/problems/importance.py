"""The target importance of clients."""

from typing import Any, Literal

import numpy as np

from fedtide.errors import InvalidInput, require

Importance = Literal["uniform", "size"] | np.ndarray


def target_importance(importance: Importance, sizes: Any, field: str = "importance") -> Any:
    """α: uniform, by number of training samples, or given; float64 with sum 1."""
    sizes = np.asarray(sizes)
    if isinstance(importance, str):
        if importance not in ("uniform", "size"):
            raise InvalidInput(field, importance, "uniform, size, or one number for each client")
        importance = np.ones(len(sizes)) if importance == "uniform" else sizes
    try:
        alpha = np.asarray(importance, np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(field, importance, "uniform, size, or one number for each client") from None
    require(alpha.shape == sizes.shape, f"shape of {field}", alpha.shape, f"{sizes.shape}: one number for each client")
    require(
        bool(np.isfinite(alpha).all() and (alpha >= 0).all() and alpha.any()), field, alpha, "≥ 0, finite, not all 0"
    )
    return alpha / alpha.sum()
