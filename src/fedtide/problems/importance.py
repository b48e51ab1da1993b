"""The target importance of clients."""

from typing import Any, Literal

import numpy as np

from fedtide.errors import floats, require

Importance = Literal["uniform", "size"] | np.ndarray


def target_importance(importance: Importance, sizes: Any, field: str = "importance") -> Any:
    """α: uniform, by number of training samples, or given; float64 with sum 1."""
    sizes = np.asarray(sizes)
    if isinstance(importance, str):
        importance = {"uniform": np.ones(len(sizes)), "size": sizes}.get(importance, importance)
    alpha = floats(field, importance, "uniform, size, or one number for each client")
    require(alpha.shape == sizes.shape, f"shape of {field}", alpha.shape, f"{sizes.shape}: one number for each client")
    fine = np.isfinite(alpha).all() and (alpha >= 0).all() and alpha.any()
    require(bool(fine), field, alpha, "≥ 0, finite, not all 0")
    return alpha / alpha.sum()
