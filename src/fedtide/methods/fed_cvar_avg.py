"""Fed-CVaR-Avg: minimise the largest losses."""

from fedtide.aggregation import WeightedSum
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import Everyone
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import TailRisk
from fedtide.types import Schedule, Work
from fedtide.work import Steps


@method(
    title="Fed-CVaR-Avg",
    purpose="worst-served clients",
    facts=Facts(
        unbiased="never, by design: biased towards large losses (γ = 1: as FedAvg)",
        extra_up="1 scalar (t)",
        extra_down="1 scalar (t)",
    ),
    bibtex="""
    @misc{theodoropoulos2023restricted,
      title = {Federated Learning Under Restricted User Availability},
      author = {Theodoropoulos, Periklis and Nikolakakis, Konstantinos E. and Kalogerias, Dionysis},
      eprint = {2309.14176}, archiveprefix = {arXiv}, year = {2023}
    }
    """,
)
def fed_cvar_avg(
    rate: float = 0.1,
    server_rate: float = 1.0,
    threshold_rate: float = 0.01,
    level: float = 0.1,
    mix: float = 0.1,
    start: float = 0.0,
    train_everyone: bool = False,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Minimise the mean of the largest losses over the participating clients, whose probabilities are unknown.

    min over (w, t) of Σ ρ_k [(1 − γ) (t + (F_k − t)₊ / α) + γ F_k], ρ_k the probability that client k takes part, α the
    `level`, γ the `mix`: local steps w_k ← w_k − η [(1 − γ) 1{f > t}/α + γ] ∇f, t_k ← t_k − η_t (1 − γ)(1 − 1{f >
    t}/α), then w ← w − η_s Σ_{k∈S} q_k Δ_k and t ← t + Σ_{k∈S} q_k (t_k − t), q_k = α_k / Σ_S α. Under `RandomAccess`
    with one user (w, t) becomes that user's. Training only the participants gives the same numbers as the paper's
    training of all clients (`train_everyone`). γ = 1 is FedAvg, and so is α = 1 while losses are above t. At first it
    is FedAvg with a rate γ + (1 − γ)/α times larger: compare it with a FedAvg whose rate is also tuned.

    Args:
        threshold_rate: η_t, the rate of the threshold t
        level: α, the fraction of the largest losses that counts
        mix: γ, the weight of the plain mean; 1 is FedAvg
        start: t before the first round
        train_everyone: also train unavailable clients, as in the paper: the same result at a higher cost
    """
    solver = TailRisk(rate, threshold_rate, level, mix, start, train_everyone, work, schedule)
    return Method("fed_cvar_avg", Blind(), Everyone(), solver, WeightedSum(), Optimiser(rate=server_rate))
