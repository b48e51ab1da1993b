"""F3AST: equalise long-run participation rates."""

from fedtide.aggregation import WeightedSum
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import RateTracking
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.types import Schedule, Work
from fedtide.work import Steps


@method(
    title="F3AST",
    purpose="client selection",
    facts=Facts(unbiased="as β → 0, once r has converged", server_scalars=True),
    bibtex="""
    @article{ribero2023f3ast,
      title = {Federated Learning Under Intermittent Client Availability and Time-Varying Communication Constraints},
      author = {Ribero, M{\\'o}nica and Vikalo, Haris and de Veciana, Gustavo},
      journal = {IEEE Journal of Selected Topics in Signal Processing}, volume = {17}, number = {1}, year = {2023}
    }
    """,
)
def f3ast(
    rate: float = 0.1,
    server_rate: float = 1.0,
    clients: int = 10,
    smoothing: float = 0.01,
    correlated: bool = False,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Invite the available clients that have taken part least relative to their importance.

    S = the `clients` available clients with the largest α_k²/r_k² (α_k/r_k² if `correlated`); r ← (1−β) r + β 1_S;
    w ← w − η_s Σ_{k∈S} (α_k / r_k) Δ_k. It tracks the rate r of its own selection and needs no estimate of π.

    Args:
        clients: the largest number of clients per round
        smoothing: β, the weight of the latest round in r
        correlated: whether availabilities are positively correlated: clients are then ranked by α/r²
    """
    policy = RateTracking(clients, smoothing, correlated)
    return Method("f3ast", Blind(), policy, Sgd(rate, work, schedule), WeightedSum(), Optimiser(rate=server_rate))
