"""FedAWE: updates that compensate for missed rounds."""

from fedtide.aggregation import WeightedSum
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import Everyone
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Echo, Sgd
from fedtide.types import Schedule, Work
from fedtide.work import Steps


@method(
    title="FedAWE",
    purpose="memory for unavailable clients",
    facts=Facts(unbiased="as η → 0 and all α equal: the mean gap is 1/π", client_models=1, client_scalars=True),
    bibtex="""
    @inproceedings{xiang2024fedawe,
      title = {Efficient Federated Learning against Heterogeneous and Non-stationary Client Unavailability},
      author = {Xiang, Ming and Ioannidis, Stratis and Yeh, Edmund and Joe-Wong, Carlee and Su, Lili},
      booktitle = {NeurIPS}, year = {2024}
    }
    """,
)
def fedawe(
    rate: float = 0.1,
    server_rate: float = 1.0,
    amplification: float = 1.0,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Let a returning client continue from its own model, and count its update once for each round it missed.

    Client k trains from its own model x_k, Δ_k the change, and sends y_k = x_k − η_g (t − last_k) Δ_k, last_k the round
    in which it last took part (−1 at first), η_g the `amplification`. w ← w − η_s Σ_{k∈S} q_k (w − y_k), q_k = α_k /
    Σ_S α: the mean of the y_k at η_s = 1. Clients of S keep the new w as their x_k. Availability need not be known or
    constant: the gaps compensate for it. With all clients always available it is FedAvg. The authors' code also clips
    the mean update to norm 0.5 and decreases η as 1/√(1 + t/10): this does neither.

    Args:
        amplification: η_g, the weight of a missed round
    """
    solver = Echo(Sgd(rate, work, schedule), amplification)
    return Method("fedawe", Blind(), Everyone(), solver, WeightedSum(), Optimiser(rate=server_rate))
