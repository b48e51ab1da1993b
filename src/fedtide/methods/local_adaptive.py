"""Adaptive optimisers at the clients."""

from fedtide.aggregation import Normalised, WeightedSum
from fedtide.errors import flag
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import Everyone
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Adaptive
from fedtide.solvers.adaptive import Algorithm, Keeping
from fedtide.types import Schedule, Work
from fedtide.work import Steps


@method(
    title="Local adaptive",
    purpose="heterogeneous devices",
    facts=Facts(
        unbiased="all clients take part",
        extra_up="d (the sum of its preconditioners), with correct; 2d more each way with state = 'averaged'",
    ),
    bibtex="""
    @misc{wang2021local,
      title = {Local Adaptivity in Federated Learning: Convergence and Consistency},
      author = {Wang, Jianyu and Xu, Zheng and Garrett, Zachary and Charles, Zachary and Liu, Luyang and Joshi, Gauri},
      eprint = {2106.02305}, archiveprefix = {arXiv}, year = {2021}
    }
    """,
)
def local_adaptive(
    rate: float = 0.01,
    server_rate: float = 1.0,
    algorithm: Algorithm = "adam",
    b1: float = 0.9,
    b2: float | None = None,
    epsilon: float = 1e-3,
    state: Keeping = "restarted",
    correct: bool = True,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Use Adam or AdaGrad at the clients, and correct the average for their different preconditioners.

    Δ_k = η Σ_j P_k^(j) g_k^(j) with diagonal P; P̄_k = Σ_j P_k^(j) includes momentum's coefficients. With `correct` w ←
    w − η_s (Σ_{k∈S} q_k η P̄_k) ⊙ Σ_{k∈S} q_k Δ_k ⊘ (η P̄_k), q_k = α_k / Σ_S α; without, w ← w − η_s Σ_S q_k Δ_k,
    which optimises a different mix of the clients in each coordinate. The clients' moments are `restarted` each round,
    `persistent` (2d floats in every client) or `averaged` (2d floats up and down). With equal P̄_k both are the same.
    Moments kept between rounds allow `correct` only at b1 = 0: otherwise Δ_k contains gradients of earlier rounds. The
    correction is FedNova's, coordinate by coordinate: our reading of the paper; as there, it is exact when all clients
    take part.

    Args:
        algorithm: the clients' optimiser
        b1: the decay of the mean of the gradients
        b2: the decay of the mean of the squares; 0.99 by default, for Adam only
        epsilon: ε, the size below which gradients count as small
        state: how the clients' moments are kept between rounds
        correct: whether to correct for different preconditioners
    """
    solver = Adaptive(rate, algorithm, b1, b2, epsilon, state, work, schedule)
    flag("correct", correct)
    aggregation = Normalised() if correct else WeightedSum()
    return Method("local_adaptive", Blind(), Everyone(), solver, aggregation, Optimiser(rate=server_rate))
