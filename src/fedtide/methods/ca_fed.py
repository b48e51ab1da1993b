"""CA-Fed: correlation-aware federated learning."""

from typing import Literal

from fedtide.aggregation import WeightedSum
from fedtide.estimators import Bayesian
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import CorrelationAware
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.types import Estimator, Schedule, Work
from fedtide.work import Steps

BIBTEX = """
    @article{rodio2024cafed,
      title = {Federated Learning Under Heterogeneous and Correlated Client Availability},
      author = {Rodio, Angelo and Faticanti, Francescomaria and Marfoq, Othmane and Neglia, Giovanni and
        Leonardi, Emilio},
      journal = {IEEE/ACM Transactions on Networking}, volume = {32}, number = {2}, year = {2024}
    }
    """


@method(
    title="CA-Fed",
    purpose="weights for unavailable clients",
    facts=Facts(
        unbiased="κ̄² → ∞ and π̂ = π",
        server_scalars=True,
        extra_up="1 scalar from every available client",
        extra_down="the model to every available client",
    ),
    bibtex=BIBTEX,
)
def ca_fed(
    rate: float = 0.1,
    server_rate: float = 1.0,
    kappa_squared: float = 1.0,
    smoothing: float = 1.0,
    threshold: float = 0.0,
    optimum: Literal["zero", "oracle", "running_min"] = "zero",
    strict: bool = False,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
    estimator: Estimator = Bayesian(),
) -> Method:
    """Exclude clients whose persistent absence slows training down more than their exclusion would bias it.

    q_k = α_k / π̂_k on the kept clients; a client is excluded, most correlated first, then least available first, when
    that reduces ε̂(q) = Σ p_k (F̂_k − F̂*_k) + 4κ̄² TV²(α, p) max_k (F̂_k − F̂*_k) by at least `threshold`. w ← w − η_s
    Σ_{k∈A, q_k>0} q_k Δ_k. κ̄² → ∞ never excludes a client (it is `unbiased`); κ̄² = 0 keeps the clients that learn
    fastest.

    Args:
        kappa_squared: κ̄², the price of bias: ∞ excludes no client, 0 keeps those that learn fastest
        smoothing: the share of a new loss in F̂; with 1 only the latest loss counts
        threshold: by how much ε̂ must decrease for a client to be excluded
        optimum: F̂*: 0, the true value, or the smallest loss so far
        strict: whether ε̂ must decrease by more than the threshold
    """
    policy = CorrelationAware(kappa_squared, smoothing, threshold, optimum, strict)
    return Method("ca_fed", estimator, policy, Sgd(rate, work, schedule), WeightedSum(), Optimiser(rate=server_rate))
