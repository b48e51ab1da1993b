"""FedAU: weights from the gaps between participations."""

from fedtide.aggregation import WeightedSum
from fedtide.estimators import Interval
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import Unbiased
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.types import Schedule, Work
from fedtide.work import Steps


@method(
    title="FedAU",
    purpose="weights for unavailable clients",
    facts=Facts(unbiased="once ω = 1/π, without a cutoff", server_scalars=True),
    bibtex="""
    @inproceedings{wang2024fedau,
      title = {A Lightweight Method for Tackling Unknown Participation Statistics in Federated Averaging},
      author = {Wang, Shiqiang and Ji, Mingyue},
      booktitle = {ICLR}, year = {2024}
    }
    """,
)
def fedau(
    rate: float = 0.1,
    server_rate: float = 1.0,
    cutoff: int | None = 50,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Weight each available client by the mean number of rounds between its participations.

    w ← w − η_s Σ_{k∈A} α_k ω_k Δ_k, ω_k the mean of client k's gaps so far: 1 before the first; a gap that ends in this
    round counts from the next round on, and a gap of `cutoff` rounds is closed. Without a cutoff ω → 1/π, so it is
    unbiased in the long run; the cutoff trades bias for bounded weights. cutoff = 1 is `fedavg` with fixed weights.

    Args:
        cutoff: K, the number of rounds after which a gap is closed; it bounds the weights
    """
    solver = Sgd(rate, work, schedule)
    return Method("fedau", Interval(cutoff), Unbiased(), solver, WeightedSum(), Optimiser(rate=server_rate))
