"""Inverse-availability weights for the available clients."""

from fedtide.aggregation import WeightedSum
from fedtide.estimators import Bayesian
from fedtide.methods.base import Facts, Method, method
from fedtide.methods.ca_fed import BIBTEX
from fedtide.participation import Unbiased
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.types import Estimator, Schedule, Work
from fedtide.work import Steps


@method(
    title="Unbiased",
    purpose="weights for unavailable clients",
    facts=Facts(unbiased="π̂ = π", server_scalars=True),
    bibtex=BIBTEX,
)
def unbiased(
    rate: float = 0.1,
    server_rate: float = 1.0,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
    estimator: Estimator = Bayesian(),
) -> Method:
    """Weight each available client by the inverse of its availability.

    w ← w − η_s Σ_{k∈A} (α_k / π̂_k) Δ_k. The expected direction is Σ α_k Δ_k when π̂ = π; rarely available
    clients have large weights, and correlation makes their absences long.
    """
    solver = Sgd(rate, work, schedule)
    return Method("unbiased", estimator, Unbiased(), solver, WeightedSum(), Optimiser(rate=server_rate))
