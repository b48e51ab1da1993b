"""Lowest loss: train the clients with the smallest losses, among a few candidates."""

from fedtide.aggregation import WeightedSum
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import LowestLoss
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.types import Schedule, Work
from fedtide.work import Steps


@method(
    title="Lowest loss",
    purpose="adversarial clients",
    facts=Facts(
        unbiased="d = m, all α equal and all π equal",
        extra_up="1 scalar from each of d candidates",
        extra_down="the model to d candidates",
    ),
    bibtex="""
    @inproceedings{shah2020lowestloss,
      title = {Choosing the Sample with Lowest Loss makes {SGD} Robust},
      author = {Shah, Vatsal and Wu, Xiaoxia and Sanghavi, Sujay},
      booktitle = {AISTATS}, year = {2020}
    }
    """,
)
def lowest_loss(
    rate: float = 0.1,
    server_rate: float = 1.0,
    clients: int = 10,
    candidates: int = 20,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Train the clients with the smallest losses among a few candidates.

    d candidates are drawn without replacement with probabilities ∝ α_k and report F_k(w) over all their samples; S is
    the m of them with the smallest losses, ties broken at random; w ← w − η_s (1/m) Σ_{k∈S} Δ_k. m is `clients`, d is
    `candidates`. `pow_d` mirrored: it leaves out clients with wrong data, and honest ones with rare data. The skew of
    the selection is recorded with each evaluation. It does not detect a client that trains honestly and sends something
    else.

    Args:
        clients: m, the number of clients that take part
        candidates: d, the number of candidates whose losses are compared
    """
    policy, server = LowestLoss(clients, candidates), Optimiser(rate=server_rate)
    return Method("lowest_loss", Blind(), policy, Sgd(rate, work, schedule), WeightedSum(), server)
