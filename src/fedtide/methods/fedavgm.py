"""FedAvgM: FedAvg with momentum at the server."""

from fedtide.aggregation import WeightedSum
from fedtide.errors import number
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import Everyone
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.types import Schedule, Work
from fedtide.work import Steps


@method(
    title="FedAvgM",
    purpose="heterogeneous data",
    facts=Facts(unbiased="all π equal and all α equal", server_models=2),
    bibtex="""
    @misc{hsu2019measuring,
      title = {Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification},
      author = {Hsu, Tzu-Ming Harry and Qi, Hang and Brown, Matthew},
      eprint = {1909.06335}, archiveprefix = {arXiv}, year = {2019}
    }
    """,
)
def fedavgm(
    rate: float = 0.1,
    server_rate: float = 1.0,
    momentum: float = 0.9,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """FedAvg with heavy-ball momentum at the server.

    m ← ρ m + Σ_{k∈S} q_k Δ_k, q_k = α_k / Σ_S α; w ← w − η_s m. ρ = `momentum` = 0 is FedAvg. Averages the directions
    of rounds with different clients; the effective rate is η_s / (1 − ρ). m does not change in rounds without available
    clients.

    Args:
        momentum: ρ, the share of the last step that is repeated
    """
    server = Optimiser("sgd", server_rate, {"momentum": number("momentum", momentum, low=0, below=1)})
    return Method("fedavgm", Blind(), Everyone(), Sgd(rate, work, schedule), WeightedSum(), server)
