"""The constants of a problem that bounds need: L, μ, σ_k², D, G, H, diam(W).

W is the ball of radius R around 0 to which the server projects.

Reference: Rodio et al., "Federated learning under heterogeneous and correlated client availability",
IEEE/ACM ToN 2024, Sec. III-A.
"""

from typing import Any, NamedTuple

import numpy as np

from fedtide.errors import number, require
from fedtide.kinds import kinds_checked
from fedtide.theory.checks import vector
from fedtide.theory.families import QuadraticFamily, SoftmaxFamily


class Constants(NamedTuple):
    """Constants of a problem on the ball W."""

    smoothness: float  # L: ∇F_k is L-Lipschitz
    convexity: float  # μ: F_k is μ-strongly convex
    noise: np.ndarray  # [N] σ_k² = sup E‖g_k − ∇F_k‖²
    slope: float  # D = max_k sup_W ‖∇F_k‖
    gradient: float  # G: E‖g_k‖² ≤ G² at every local iterate, which is not projected
    height: float  # H = max_k sup_W |F_k(w) − F_k(w_B*)|
    diameter: float  # diam(W) = 2R

    @property
    def condition(self) -> float:
        """κ = L/μ."""
        return self.smoothness / self.convexity


@kinds_checked
def quadratic_constants(
    family: QuadraticFamily, radius: float, biased: Any, noise: Any = 0.0, rate: float = 0.0, local_steps: int = 1
) -> Constants:
    """Constants of quadratics; `biased` is w_B*, `noise` σ_k² [N], and `rate`, `local_steps` are η_1 and E.

    D = max ‖H_k‖ (R + ‖c_k‖). Noise may carry local iterates out of W, but gradient steps with ηL ≤ 2 do not increase
    the distance to c_k: E‖w_{k,e} − c_k‖² ≤ (R + ‖c_k‖)² + e η²σ_k², hence
    G² = max_k ‖H_k‖² ((R + ‖c_k‖)² + (E−1) η²σ_k²) + σ_k². sup_W F_k ≤ ½ ‖H_k‖ (R + ‖c_k‖)².
    """
    spectrum = np.linalg.eigvalsh(family.hessians)
    norm, reach = spectrum[:, -1], number("radius", radius, above=0) + np.linalg.norm(family.centres, axis=1)
    sigma2 = vector("noise", noise, family.clients)
    require(bool((sigma2 >= 0).all()), "noise", noise, "0 or more")
    require(local_steps == 1 or number("rate", rate, low=0) * norm.max() <= 2, "rate", rate, "at most 2/L")
    drift = (local_steps - 1) * rate**2 * sigma2
    at_biased = family.values(np.asarray(biased, float))
    highest = 0.5 * norm * reach**2
    return Constants(
        float(norm.max()),
        float(spectrum.min()),
        sigma2,
        float((norm * reach).max()),
        float(np.sqrt((norm**2 * (reach**2 + drift) + sigma2).max())),
        float(np.maximum(highest - at_biased, at_biased).max()),
        2 * radius,
    )


@kinds_checked
def softmax_constants(
    family: SoftmaxFamily, radius: float, batch: int | None = None, rate: float = 0.0, local_steps: int = 1
) -> Constants:
    """Constants of ridge softmax regression; `batch` samples drawn with replacement, None for all of them.

    μ = r exactly; L = r + ½ max_k λ_max(X̃ᵀX̃/n_k) (Böhning); σ_k² ≤ (2/b) mean‖x̃‖²; D ≤ √2 mean‖x̃‖ + rR;
    H ≤ ln C + √2 R mean‖x̃‖ + rR²/2. A local step lengthens w by at most η√2 max‖x̃‖, which G allows for.
    """
    number("radius", radius, above=0)
    require(batch is None or batch >= 1, "batch", batch, "1 or more samples, or None for all")
    r, inputs = family.ridge, family._inputs
    norms = np.linalg.norm(inputs, axis=1)
    mean = np.array([norms[mine].mean() for mine in family._slices])
    square = np.array([(norms[mine] ** 2).mean() for mine in family._slices])
    largest = max(float(np.linalg.norm(inputs[mine], 2) ** 2 / len(inputs[mine])) for mine in family._slices)
    sigma2 = np.zeros(family.clients) if batch is None else 2 * square / batch
    far = radius + number("rate", rate, low=0) * (local_steps - 1) * np.sqrt(2) * norms.max()
    return Constants(
        r + largest / 2,
        r,
        sigma2,
        float((np.sqrt(2) * mean + r * radius).max()),
        float(np.sqrt(((np.sqrt(2) * mean + r * far) ** 2 + sigma2).max())),
        float((np.log(family.classes) + np.sqrt(2) * radius * mean + r * radius**2 / 2).max()),
        2 * radius,
    )
