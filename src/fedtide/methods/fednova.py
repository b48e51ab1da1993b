"""FedNova: normalised averaging for devices of different speeds."""

from fedtide.aggregation import Normalised
from fedtide.errors import flag, number
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import Everyone, UniformSample
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import ControlVariate, Proximal
from fedtide.types import Schedule, Solver, Work
from fedtide.work import Steps


@method(
    title="FedNova",
    purpose="heterogeneous devices",
    facts=Facts(
        unbiased="all clients take part; with equal work and rates: all π equal and all α equal",
        extra_up="1 scalar (‖a_k‖₁); d more each way with variance_reduced",
    ),
    bibtex="""
    @inproceedings{wang2020fednova,
      title = {Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization},
      author = {Wang, Jianyu and Liu, Qinghua and Liang, Hao and Joshi, Gauri and Poor, H. Vincent},
      booktitle = {NeurIPS}, year = {2020}
    }
    """,
)
def fednova(
    rate: float = 0.1,
    server_rate: float = 1.0,
    momentum: float = 0.0,
    mu: float = 0.0,
    variance_reduced: bool = False,
    clients: int | None = None,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Average mean gradients instead of sums: within a round, fast devices do not count more.

    w ← w − η_s m̄ Σ_{k∈S} q_k Δ_k / m_k, m_k = η‖a_k‖₁ the sum of the coefficients with which client k's gradients
    enter Δ_k, and m̄ = Σ_S q_k m_k / Σ_S q. For plain SGD ‖a‖₁ = τ_k; for `momentum` ρ, a proximal term `mu` μ or both
    it is the exact sum of the recursion. (For both, the authors' code has another sum, and m̄ = η Σ q_k τ_k.)
    `variance_reduced` adds SCAFFOLD's control variates: a row for each client, one more message each way. With equal
    work it is `fedavg` with that solver. m̄ is that of S: with partial participation, rounds of fast clients still have
    longer steps. S and q as in `fedavg`: all available clients with α_k / Σ_S α, or with `clients` = m a sample of m
    with 1/m each.

    Args:
        momentum: ρ, the share of the last step that is repeated
        mu: μ, the strength of the proximal term; 0 is none
        variance_reduced: use SCAFFOLD's control variates
        clients: m, the largest number of clients per round; all available clients by default
    """
    participation = Everyone("ratio") if clients is None else UniformSample(clients, "equal")
    flag("variance_reduced", variance_reduced)
    number("momentum", momentum, low=0, below=1)
    # Also where μ = ρ = 0, which is Sgd: another solver there would keep them from being swept from 0.
    solver: Solver = Proximal(rate, mu, work, schedule, momentum)
    if variance_reduced:
        solver = ControlVariate(solver)
    return Method("fednova", Blind(), participation, solver, Normalised(), Optimiser(rate=server_rate))
