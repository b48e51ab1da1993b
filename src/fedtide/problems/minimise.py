"""Minimising smooth functions to the last digits, on the host."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.sparse.linalg import cg

_NEWTON_STEPS = 8


def minimiser(
    loss: Callable[..., Array], tolerance: float, *, polish: bool = False
) -> Callable[..., tuple[Any, float]]:
    """A function (start [d], *data) -> (w* [d], loss(w*, *data)) that minimises `loss(w, *data)` by L-BFGS.

    It ends where no entry of the gradient exceeds `tolerance`. L-BFGS compares values, so rounding of the loss stops
    it at a gradient of about √ε; `polish` adds Newton steps, which look at gradients only and go to about ε. Call it
    under `jax.enable_x64(True)`. Data of equal shapes share a compiled program.
    """
    value_and_gradient = jax.jit(jax.value_and_grad(loss))

    @jax.jit
    def newton(w: Array, *data: Any) -> Array:
        gradient, product = jax.linearize(lambda w: jax.grad(loss)(w, *data), w)
        return w - cg(product, gradient, tol=1e-6, maxiter=len(w))[0]

    def solve(start: Any, *data: Any) -> tuple[Any, float]:
        from scipy.optimize import minimize
        from threadpoolctl import threadpool_limits

        data = jax.device_put(data)

        def evaluate(w: Any) -> tuple[float, np.ndarray]:
            value, gradient = value_and_gradient(w, *data)
            return float(value), np.asarray(gradient)

        options = {"maxiter": 10_000, "maxfun": 20_000, "maxcor": 20, "ftol": 0.0, "gtol": tolerance}
        # The vectors are short: on a busy machine, threads of the linear algebra only wait for each other.
        with threadpool_limits(1):
            found = minimize(evaluate, np.asarray(start), jac=True, method="L-BFGS-B", options=options)
        w, value, slope = found.x, float(found.fun), np.linalg.norm(found.jac)
        for _ in range(_NEWTON_STEPS if polish and slope > 0 else 0):
            closer = newton(jnp.asarray(w), *data)
            new_value, new_gradient = evaluate(closer)
            if not np.linalg.norm(new_gradient) < slope:
                break
            w, value, slope = np.asarray(closer), new_value, np.linalg.norm(new_gradient)
        return w, value

    return solve
