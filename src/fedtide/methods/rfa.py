"""RFA: the geometric median of the updates."""

from fedtide.aggregation import GeometricMedian
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import Everyone, UniformSample
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.types import Schedule, Work
from fedtide.work import Steps


@method(
    title="RFA",
    purpose="adversarial clients",
    facts=Facts(unbiased="equal data and symmetric noise"),
    bibtex="""
    @article{pillutla2022rfa,
      title = {Robust Aggregation for Federated Learning},
      author = {Pillutla, Krishna and Kakade, Sham M. and Harchaoui, Zaid},
      journal = {IEEE Transactions on Signal Processing}, volume = {70}, year = {2022}
    }
    """,
)
def rfa(
    rate: float = 0.1,
    server_rate: float = 1.0,
    iterations: int = 8,
    smoothing: float = 1e-6,
    clients: int | None = None,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Step along the geometric median of the updates, weighted by importance.

    w ← w − η_s v, v ≈ argmin Σ_{k∈S} q_k ‖v − Δ_k‖: v ← Σ β_k Δ_k / Σ β_k with β_k = q_k / max(ν, ‖v − Δ_k‖),
    `iterations` times from v = 0. S and q as in `fedavg`: all available clients with α_k / Σ_S α, or with `clients` = m
    a sample of m with 1/m each. It withstands attackers with less than half of the weight, and counts honest clients
    with rare data for less than theirs.

    Args:
        iterations: the number of Weiszfeld steps
        smoothing: ν, the distance below which updates count as equally close, in the units of ‖Δ‖
        clients: m, the largest number of clients per round; all available clients by default
    """
    participation = Everyone("ratio") if clients is None else UniformSample(clients, "equal")
    rule = GeometricMedian(iterations, smoothing)
    return Method("rfa", Blind(), participation, Sgd(rate, work, schedule), rule, Optimiser(rate=server_rate))
