"""Debiased FedAvg: weights inverse to participation rates."""

from fedtide.aggregation import WeightedSum
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import Separated
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.types import Schedule, Work
from fedtide.work import Steps


@method(
    title="Debiased FedAvg",
    purpose="weights for unavailable clients",
    facts=Facts(unbiased="once r̂ has converged", server_scalars=True),
    bibtex="""
    @inproceedings{sun2025debiasing,
      title = {Debiasing Federated Learning with Correlated Client Participation},
      author = {Sun, Zhenyu and Zhang, Ziyang and Xu, Zheng and Joshi, Gauri and Sharma, Pranay and Wei, Ermin},
      booktitle = {ICLR}, year = {2025}
    }
    """,
)
def debiased_fedavg(
    rate: float = 0.1,
    server_rate: float = 1.0,
    clients: int | None = None,
    separation: int = 0,
    prior: float = 1.0,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Weight clients by the inverse of their past participation rate, with a pause between participations.

    w ← w − η_s Σ_{k∈S} (α_k / r̂_k) Δ_k, r̂_k = (rounds in S + n r₀) / (rounds + n), this one included. S is all
    available clients that were not in S in the last R = `separation` rounds, or with `clients` = m a sample of m of
    them. n is `prior`, r₀ the rate if all were always available (the paper has no prior). Unbiased once r̂ has
    converged, for any R; a larger R makes the rates more equal.

    Args:
        clients: m, the largest number of clients per round; all available clients by default
        separation: R, the number of rounds for which a client pauses after taking part
        prior: n, the number of rounds for which the prior of r̂ counts
    """
    policy, solver = Separated(clients, separation, prior), Sgd(rate, work, schedule)
    return Method("debiased_fedavg", Blind(), policy, solver, WeightedSum(), Optimiser(rate=server_rate))
