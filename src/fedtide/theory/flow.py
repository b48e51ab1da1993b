"""Stochastic approximation: averaged iterates follow the flow dw/dt = −∇F(w), more closely for smaller steps.

Reference: Borkar, "Stochastic approximation: a dynamical systems viewpoint", 2nd ed., Springer 2022, chapter 2.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

from fedtide.errors import check_one_of, number, require
from fedtide.kinds import kinds_checked
from fedtide.theory.checks import numbers, vector

Kind = Literal["every_step", "every_round"]


class StepConditions(NamedTuple):
    """The conditions that steps a_n = C/n^δ satisfy."""

    infinite_time: bool  # Σ a_n = ∞: the flow's time is unbounded (δ ≤ 1)
    finite_noise: bool  # Σ a_n² < ∞: the noise vanishes in the limit (δ > ½)
    correlated_availability: bool  # Σ ln(n) a_n² < ∞ and Σ a_n = ∞, assumed in Theorem 2 of CA-Fed (½ < δ ≤ 1)
    averaged_training: bool  # ¾ < δ ≤ 1, assumed in the analysis of averaged SGD


@kinds_checked
def step_conditions(exponent: float) -> StepConditions:
    """The conditions on a_n = C/n^δ. 1/√n violates every condition on the noise: Σ 1/n diverges."""
    delta = number("exponent", exponent, above=0)
    return StepConditions(delta <= 1, delta > 0.5, 0.5 < delta <= 1, 0.75 < delta <= 1)


@kinds_checked
def schedule(kind: Kind, scale: float, count: int, period: int = 1) -> np.ndarray:
    """a_0 … a_{count−1}: scale/(n+1) at every step, or scale/(⌊n/N⌋+1), constant within a round of N steps."""
    check_one_of("kind", kind, Kind)
    require(count >= 1 and period >= 1, "count", count, "1 or more, as period")
    n = np.arange(count)
    return number("scale", scale, above=0) / ((n if kind == "every_step" else n // period) + 1)


@kinds_checked
def clock(steps: Any) -> np.ndarray:
    """t_n = a_0 + … + a_{n−1}: the flow's time at iterate n [count + 1]."""
    return np.append(0.0, np.cumsum(vector("steps", steps)))


@kinds_checked
def flow(gradient: Callable[[np.ndarray], np.ndarray], start: Any, times: Any) -> np.ndarray:
    """w(t) of dw/dt = −∇F(w) from w(times[0]) = start, at the given times [len(times), d]."""
    times = vector("times", times)
    require(bool((np.diff(times) >= 0).all()), "times", times, "in order")
    w = numbers("start", start)
    if len(times) == 1 or times[-1] == times[0]:
        return np.repeat(w[None], len(times), axis=0)
    solved = solve_ivp(
        lambda _, w: -gradient(w), (times[0], times[-1]), w, t_eval=times, method="LSODA", rtol=1e-9, atol=1e-11
    )
    require(solved.success, "gradient", solved.message, "the gradient of a function whose flow can be integrated")
    return solved.y.T


class Tracking(NamedTuple):
    """The distance of the iterates from the flow, by window."""

    time: np.ndarray  # [windows] the start of each window
    distance: np.ndarray  # [windows] sup over the window of ‖iterate − flow started at the window's first iterate‖


@kinds_checked
def tracking(gradient: Callable[[np.ndarray], np.ndarray], iterates: Any, steps: Any, window: float = 1.0) -> Tracking:
    """sup_{t ≤ s ≤ t+window} ‖w̄(s) − w^t(s)‖ over consecutive windows of the flow's time.

    `iterates` [count + 1, d] are w_0 … w_count; w̄ is their interpolation at `clock(steps)`. The iterates follow the
    flow if this tends to 0; with constant steps it levels off.
    """
    a, w = vector("steps", steps), numbers("iterates", iterates)
    require(w.ndim == 2 and len(w) == len(a) + 1, "shape of iterates", w.shape, f"({len(a) + 1}, d)")
    at, width = clock(a), number("window", window, above=0)
    starts, distances, first = [], [], 0
    while first < len(at) - 1:
        last = int(np.searchsorted(at, at[first] + width, side="right"))
        last = min(max(last, first + 2), len(at))
        followed = flow(gradient, w[first], at[first:last])
        starts.append(at[first])
        distances.append(float(np.linalg.norm(w[first:last] - followed, axis=1).max()))
        first = last - 1
    return Tracking(np.array(starts), np.array(distances))
