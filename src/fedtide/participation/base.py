"""What participation policies have in common."""

import jax.numpy as jnp
from jax import Array


class Policy:
    """Declares what a policy asks for: by default nothing. By default it may invite all who are available."""

    @property
    def needs_estimates(self) -> bool:
        """π̂ (and λ̂) of every client."""
        return False

    @property
    def needs_losses(self) -> bool:
        """The losses of the available clients at the current model."""
        return False

    @property
    def needs_optimum(self) -> bool:
        """Each client's smallest training loss F*_k."""
        return False

    def capacity(self, available: int) -> int:
        """The most clients that can be invited when at most `available` are there."""
        return available


def share_of_all(importance: Array, weight: Array) -> Array:
    """Σ α / Σ weight: the factor that normalises weights to sum 1 (Σ α = 1).

    Exactly 1 when the weights are α itself, so that with everybody there normalised and fixed weights agree to the bit.
    """
    return importance.sum() / jnp.maximum(weight.sum(), jnp.finfo(weight.dtype).tiny)
