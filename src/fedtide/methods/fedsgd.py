"""FedSGD: one full gradient per client per round."""

from fedtide.aggregation import WeightedSum
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.methods.fedavg import BIBTEX
from fedtide.participation import Everyone
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.types import Schedule
from fedtide.work import FullBatch, Steps


@method(title="FedSGD", purpose="baselines", facts=Facts(unbiased="all π equal and all α equal"), bibtex=BIBTEX)
def fedsgd(
    rate: float = 0.1, server_rate: float = 1.0, batch: int | None = None, schedule: Schedule = Constant()
) -> Method:
    """One gradient step of each client on all its samples, averaged.

    w ← w − η_s η Σ_{k∈S} q_k ∇F_k(w), q_k = α_k / Σ_S α: gradient descent on Σ α_k F_k when all clients are available.
    No client drift, but one step per round. With `batch` the step uses that many samples, drawn with replacement.

    Args:
        batch: number of samples of the step, drawn with replacement; without it all samples
    """
    work = FullBatch(1) if batch is None else Steps(1, batch)
    solver = Sgd(rate, work, schedule)
    return Method("fedsgd", Blind(), Everyone(), solver, WeightedSum(), Optimiser(rate=server_rate))
