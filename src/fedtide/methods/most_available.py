"""Only the most available clients."""

from fedtide.aggregation import WeightedSum
from fedtide.estimators import Bayesian
from fedtide.methods.base import Facts, Method, method
from fedtide.methods.ca_fed import BIBTEX
from fedtide.participation import MostAvailable
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.types import Estimator, Schedule, Work
from fedtide.work import Steps


@method(
    title="More available",
    purpose="weights for unavailable clients",
    facts=Facts(unbiased="never: it ignores the excluded clients", server_scalars=True),
    bibtex=BIBTEX,
)
def most_available(
    rate: float = 0.1,
    server_rate: float = 1.0,
    fraction: float = 0.5,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
    estimator: Estimator = Bayesian(),
) -> Method:
    """Keep the more available clients and weight them by the inverse of their availability.

    w ← w − η_s Σ_{k∈A∩K} (α_k / π̂_k) Δ_k, K the `fraction` of the clients with the largest π̂. Converges fast, but to
    the optimum of the kept clients.

    Args:
        fraction: the fraction of the clients that is kept
    """
    policy, solver = MostAvailable(fraction), Sgd(rate, work, schedule)
    return Method("most_available", estimator, policy, solver, WeightedSum(), Optimiser(rate=server_rate))
