"""FedExP: a longer server step where updates differ."""

from fedtide.aggregation import Extrapolated, WeightedSum
from fedtide.errors import flag
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import Everyone, UniformSample
from fedtide.schedules import Constant
from fedtide.servers import AverageOfLastTwo, Optimiser
from fedtide.solvers import ControlVariate, Proximal
from fedtide.types import Schedule, Server, Solver, Work
from fedtide.work import Steps


@method(
    title="FedExP",
    purpose="heterogeneous data",
    facts=Facts(
        unbiased="all clients take part",
        server_models=2,
        extra_up="1 scalar (‖Δ_k‖²); d more each way with control_variates",
    ),
    bibtex="""
    @inproceedings{jhunjhunwala2023fedexp,
      title = {{FedExP}: Speeding Up Federated Averaging via Extrapolation},
      author = {Jhunjhunwala, Divyansh and Wang, Shiqiang and Joshi, Gauri},
      booktitle = {ICLR}, year = {2023}
    }
    """,
)
def fedexp(
    rate: float = 0.1,
    server_rate: float = 1.0,
    regulariser: float = 1e-3,
    mu: float = 0.0,
    control_variates: bool = False,
    average: bool = True,
    clients: int | None = None,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Extrapolate: the more the updates differ, the longer the step along their mean.

    w ← w − η_s η_g Δ̄, Δ̄ = Σ_{k∈S} q_k Δ_k and η_g = max(1, Σ_S q_k ‖Δ_k‖² / (2 (‖Δ̄‖² + ε))), Σ_S q = 1; ε is
    `regulariser`, in the units of ‖Δ‖². η_s = 1 in the paper. S and q as in `fedavg`: all available clients, or with
    `clients` = m a sample of m; it has the bias of `fedavg`, and that of the dependence of η_g on S.

    With `average` the returned model is the mean of the last two iterates, as in the paper (training continues from the
    last). `mu` combines it with FedProx, `control_variates` with SCAFFOLD. The authors' code multiplies ε by |S| and
    decreases it over rounds, and clips gradients; this does not.

    Args:
        regulariser: ε, in the units of ‖Δ‖²
        mu: μ, the strength of FedProx's proximal term; 0 is none
        control_variates: use SCAFFOLD's control variates
        average: return the mean of the last two models
        clients: m, the largest number of clients per round; all available clients by default
    """
    participation = Everyone("ratio") if clients is None else UniformSample(clients, "equal")
    flag("control_variates", control_variates)
    flag("average", average)
    # Also where μ = 0, which is Sgd: another solver there would keep μ from being swept from 0.
    solver: Solver = Proximal(rate, mu, work, schedule)
    if control_variates:
        solver = ControlVariate(solver)
    server: Server = Optimiser(rate=server_rate)
    if average:
        server = AverageOfLastTwo(server)
    return Method("fedexp", Blind(), participation, solver, Extrapolated(WeightedSum(), regulariser), server)
