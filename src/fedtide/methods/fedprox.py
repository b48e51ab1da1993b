"""FedProx: local training with a proximal term."""

from fedtide.aggregation import WeightedSum
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import Everyone
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Proximal
from fedtide.types import Schedule, Work
from fedtide.work import Steps


@method(
    title="FedProx",
    purpose="heterogeneous data",
    facts=Facts(unbiased="all π equal and all α equal"),
    bibtex="""
    @inproceedings{li2020fedprox,
      title = {Federated Optimization in Heterogeneous Networks},
      author = {Li, Tian and Sahu, Anit Kumar and Zaheer, Manzil and Sanjabi, Maziar and Talwalkar, Ameet and
        Smith, Virginia},
      booktitle = {MLSys}, year = {2020}
    }
    """,
)
def fedprox(
    rate: float = 0.1,
    server_rate: float = 1.0,
    mu: float = 0.1,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """FedAvg with a proximal term that keeps local models near the received one.

    w ← w − η_s Σ_{k∈S} q_k Δ_k, q_k = α_k / Σ_S α, after local steps w_k ← w_k − η (g + μ (w_k − w)). Less client drift
    and slower local progress; μ = 0 is FedAvg. The paper samples clients in proportion to their data and averages them
    equally: use `fedtide.compose` with `SampleWithReplacement`.

    Args:
        mu: μ, the strength of the proximal term; 0 is none
    """
    solver = Proximal(rate, mu, work, schedule)
    return Method("fedprox", Blind(), Everyone(), solver, WeightedSum(), Optimiser(rate=server_rate))
