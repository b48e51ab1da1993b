"""Generalised FedAvg: amplify the change over a period of rounds."""

from fedtide.aggregation import WeightedSum
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import Everyone
from fedtide.schedules import Constant
from fedtide.servers import Amplified, Optimiser
from fedtide.solvers import Sgd
from fedtide.types import Schedule, Work
from fedtide.work import Steps


@method(
    title="Generalised FedAvg",
    purpose="cyclic participation",
    facts=Facts(unbiased="over a period in which all clients take part equally often", server_models=2),
    bibtex="""
    @inproceedings{wang2022unified,
      title = {A Unified Analysis of Federated Learning with Arbitrary Client Participation},
      author = {Wang, Shiqiang and Ji, Mingyue},
      booktitle = {NeurIPS}, year = {2022}
    }
    """,
)
def generalised_fedavg(
    rate: float = 0.1,
    server_rate: float = 1.0,
    period: int = 10,
    factor: float = 1.5,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """FedAvg, with the change of the model over each period of rounds amplified.

    w ← w − η_s Σ_{k∈S} q_k Δ_k, q_k = α_k / Σ_S α, and after every `period` = P rounds w ← w_P + γ (w − w_P), w_P the
    model P rounds ago. The long step weights clients as the whole period does: for participation that is even over P
    rounds, such as cyclic participation. γ = 1 is FedAvg.

    Args:
        period: P, the number of rounds of a period
        factor: γ, the amplification of a period's step; 1 changes nothing
    """
    server = Amplified(Optimiser(rate=server_rate), period, factor)
    solver = Sgd(rate, work, schedule)
    return Method("generalised_fedavg", Blind(), Everyone(), solver, WeightedSum(), server)
