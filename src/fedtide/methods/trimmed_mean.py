"""Trimmed mean: robust to a given share of the participants."""

from fedtide.aggregation import TrimmedMean
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.methods.coordinate_median import BIBTEX
from fedtide.participation import Everyone, UniformSample
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.types import Schedule, Work
from fedtide.work import Steps


@method(
    title="Trimmed mean",
    purpose="adversarial clients",
    facts=Facts(unbiased="equal data and symmetric noise; β = 0: all π equal and all α equal"),
    bibtex=BIBTEX,
)
def trimmed_mean(
    rate: float = 0.1,
    server_rate: float = 1.0,
    trim: float = 0.2,
    clients: int | None = None,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Average every coordinate of the updates without its largest and smallest values.

    w ← w − η_s v, v_i = mean of (Δ_k)_i over S without its ⌊β |S|⌋ largest and smallest values; β is `trim`. S is all
    available clients, or with `clients` = m a sample of m of them. It withstands up to β |S| attackers, and ignores α
    and, for β > 0, part of what honest clients with rare data send.

    Args:
        trim: β, the share of the updates that is left out at each end
        clients: m, the largest number of clients per round; all available clients by default
    """
    participation = Everyone("equal") if clients is None else UniformSample(clients, "equal")
    solver, server = Sgd(rate, work, schedule), Optimiser(rate=server_rate)
    return Method("trimmed_mean", Blind(), participation, solver, TrimmedMean(trim), server)
