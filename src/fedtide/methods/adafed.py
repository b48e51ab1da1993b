"""AdaFed's participation-aware weights."""

from fedtide.aggregation import WeightedSum
from fedtide.estimators import Bayesian
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import NormalisedInverse
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.types import Estimator, Schedule, Work
from fedtide.work import Steps


@method(
    title="AdaFed",
    purpose="weights for unavailable clients",
    facts=Facts(unbiased="all π equal and all α equal", server_scalars=True),
    bibtex="""
    @article{tan2022adafed,
      title = {{AdaFed}: Optimizing Participation-Aware Federated Learning with Adaptive Aggregation Weights},
      author = {Tan, Lei and Zhang, Xiaoxi and Zhou, Yipeng and Che, Xinkai and Hu, Miao and Chen, Xu and Wu, Di},
      journal = {IEEE Transactions on Network Science and Engineering}, volume = {9}, number = {4}, year = {2022}
    }
    """,
)
def adafed(
    rate: float = 0.1,
    server_rate: float = 1.0,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
    estimator: Estimator = Bayesian(),
) -> Method:
    """Inverse-availability weights, normalised over the available clients.

    w ← w − η_s Σ_{k∈A} q_k Δ_k with q_k = (α_k / π̂_k) / Σ_{j∈A} (α_j / π̂_j). The
    weights sum to one in every round, which reintroduces a bias towards available clients. The paper's client
    selection is not included.
    """
    solver = Sgd(rate, work, schedule)
    return Method("adafed", estimator, NormalisedInverse(), solver, WeightedSum(), Optimiser(rate=server_rate))
