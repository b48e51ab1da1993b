"""FedStale: fresh updates mixed with stale ones."""

from fedtide.aggregation import LatestUpdates
from fedtide.estimators import Bayesian
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import Unbiased
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.types import Estimator, Schedule, Work
from fedtide.work import Steps


@method(
    title="FedStale",
    purpose="memory for unavailable clients",
    facts=Facts(unbiased="π̂ = π", server_models=2, server_rows="N", server_scalars=True),
    bibtex="""
    @article{rodio2024fedstale,
      title = {{FedStale}: Leveraging Stale Client Updates in Federated Learning},
      author = {Rodio, Angelo and Neglia, Giovanni},
      journal = {arXiv preprint arXiv:2405.04171}, year = {2024}
    }
    """,
)
def fedstale(
    rate: float = 0.1,
    server_rate: float = 1.0,
    trust: float = 0.5,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
    estimator: Estimator = Bayesian(),
) -> Method:
    """Combine fresh updates with the latest updates of unavailable clients, weighted by a factor β.

    v = β Σ_j α_j y_j + Σ_{k∈A} (α_k / π̂_k) (Δ_k − β y_k) with the old y; then y_k ← Δ_k on A and w ← w − η_s v.
    β is `trust`: 0 is `unbiased`, 1 is FedVARP with weights for unequal availability. Unbiased for every β when π̂ = π;
    the more unequal the availability, the less stale updates help and the smaller β should be. In a round without
    available clients the step is β times the memory's direction.

    Args:
        trust: β, the weight of stale updates: 0 is Unbiased, 1 FedVARP's direction
    """
    solver, memory = Sgd(rate, work, schedule), LatestUpdates(trust)
    return Method("fedstale", estimator, Unbiased(), solver, memory, Optimiser(rate=server_rate))
