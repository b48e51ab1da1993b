"""FedAvg with a uniform cohort: the costs of client drift and partial participation, and what FedVARP removes.

Reference: Jhunjhunwala et al., "FedVARP: tackling the variance due to partial client participation in federated
learning", UAI 2022, Theorems 1 and 2.
"""

from typing import Any, Literal

from fedtide.errors import check_one_of, number, require
from fedtide.kinds import kinds_checked
from fedtide.theory.bounds.base import Bound

Version = Literal["printed", "explicit"]


@kinds_checked
def fedavg_error(
    smoothness: float,
    start: float,
    rounds: int,
    local_steps: int,
    rate: float,
    server_rate: float,
    cohort: int,
    clients: int,
    noise: float,
    heterogeneity: float,
    version: Version = "explicit",
) -> Bound:
    """mean_{t<T} E‖∇F(w_t)‖² with M of N clients, uniformly without replacement, τ local steps each.

    `start` is F(w_0) − F*, `noise` σ² = sup E‖g − ∇F_k‖², `heterogeneity` σ_g² = sup mean_k ‖∇F_k − ∇F‖²; convexity is
    not needed. With η̃ = η_s η τ and ν = (N−M)/(M(N−1)):

    * `printed`: the orders of the slides with constants 1: start/(η̃T) + η_sηLσ²/M + η²L²(τ−1)σ² + η̃Lνσ_g²
      + η²L²τ(τ−1)σ_g². Shows which term dominates; not a bound.
    * `explicit`: explicit constants, valid if 2Lη̃ ≤ 1 and Lη(τ−1) ≤ 1/√48: 4 start/(η̃T) + 4η_sηLσ²/M
      + 24η²L²(τ−1)σ² + 8η̃Lνσ_g² + 48η²L²(τ−1)²σ_g².

    Terms: `start`, `noise`, `participation`, `drift`.
    """
    check_one_of("version", version, Version)
    require(1 <= cohort <= clients, "cohort", cohort, f"from 1 to {clients}, the clients")
    require(rounds >= 1, "rounds", rounds, "1 or more")
    require(local_steps >= 1, "local_steps", local_steps, "1 or more")
    L, eta, tau = number("smoothness", smoothness, above=0), number("rate", rate, above=0), local_steps
    step = number("server_rate", server_rate, above=0) * eta * tau
    for name, value in (("start", start), ("noise", noise), ("heterogeneity", heterogeneity)):
        number(name, value, low=0)
    missing = (clients - cohort) / (cohort * max(clients - 1, 1))
    first, in_cohort, in_steps, absent, drift = 1, 1, 1, 1, tau * (tau - 1)
    if version == "explicit":
        require(2 * L * step <= 1 + 1e-9, "server_rate", server_rate, "small enough that 2 L η_s η τ ≤ 1")
        require(48 * (L * eta * (tau - 1)) ** 2 <= 1 + 1e-9, "rate", rate, "small enough that L η (τ−1) ≤ 1/√48")
        first, in_cohort, in_steps, absent, drift = 4, 4, 24, 8, 48 * (tau - 1) ** 2
    return Bound(
        {
            "start": first * start / (step * rounds),
            "noise": (in_cohort * step / tau * L / cohort + in_steps * (eta * L) ** 2 * (tau - 1)) * noise,
            "participation": absent * step * L * missing * heterogeneity,
            "drift": drift * (eta * L) ** 2 * heterogeneity,
        }
    )


@kinds_checked
def fedvarp_error(*setting: Any, **named: Any) -> Bound:
    """The same for FedVARP, with the same arguments: no participation term, the same client drift.

    Orders with constants 1, like version `printed` of `fedavg_error`: not a bound.
    """
    return Bound({**fedavg_error(*setting, **named, version="printed").terms, "participation": 0.0})
