"""Minimising smooth functions to the last digits, on the host."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.sparse.linalg import cg

_NEWTON_STEPS = 8


def minimise(
    evaluate: Callable[[Any], tuple[float, np.ndarray]],
    start: Any,
    tolerance: float,
    newton: Callable[[Any], Any] | None = None,
    product: Callable[[Any, Any], Any] | None = None,
) -> tuple[Any, float, float]:
    """(w*, value, ‖gradient‖) of a function `evaluate(w) -> (value, gradient)`, from `start`.

    By a trust region where `product(w, v)`, the Hessian at w times v, is given, otherwise by L-BFGS, until the gradient
    is below `tolerance`. SciPy's minimisers compare values, so rounding of the value stops them at a gradient of about
    √ε; `newton(w)`, a Newton step from w, is then repeated while it lowers the gradient, which goes to about ε.
    """
    from scipy.optimize import minimize

    method, options = "trust-ncg", {"gtol": tolerance, "maxiter": 10_000}
    if product is None:
        method, options = "L-BFGS-B", options | {"maxfun": 20_000, "maxcor": 20, "ftol": 0.0}
    found = minimize(evaluate, np.asarray(start), jac=True, hessp=product, method=method, options=options)
    w, value, slope = found.x, float(found.fun), float(np.linalg.norm(found.jac))
    for _ in range(_NEWTON_STEPS if newton is not None and slope > 0 else 0):
        closer = newton(w)  # pyright: ignore[reportOptionalCall]
        new_value, new_gradient = evaluate(closer)
        if not np.linalg.norm(new_gradient) < slope:
            break
        w, value, slope = np.asarray(closer), new_value, float(np.linalg.norm(new_gradient))
    return w, value, slope


def minimiser(
    loss: Callable[..., Array], tolerance: float, *, polish: bool = False
) -> Callable[..., tuple[Any, float]]:
    """A function (start [d], *data) -> (w* [d], loss(w*, *data)) that minimises `loss(w, *data)`; see `minimise`.

    `polish` adds Newton steps. Call it under `jax.enable_x64(True)`. Data of equal shapes share a compiled program.
    """
    value_and_gradient = jax.jit(jax.value_and_grad(loss))

    @jax.jit
    def newton(w: Array, *data: Any) -> Array:
        gradient, product = jax.linearize(lambda w: jax.grad(loss)(w, *data), w)
        return w - cg(product, gradient, tol=1e-6, maxiter=len(w))[0]

    def solve(start: Any, *data: Any) -> tuple[Any, float]:
        from threadpoolctl import threadpool_limits

        data = jax.device_put(data)

        def evaluate(w: Any) -> tuple[float, np.ndarray]:
            value, gradient = value_and_gradient(w, *data)
            return float(value), np.asarray(gradient)

        step = (lambda w: newton(jnp.asarray(w), *data)) if polish else None
        # The vectors are short: on a busy machine, threads of the linear algebra only wait for each other.
        with threadpool_limits(1):
            return minimise(evaluate, start, tolerance, step)[:2]

    return solve
