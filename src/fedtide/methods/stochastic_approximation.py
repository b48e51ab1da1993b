"""Federated learning as stochastic approximation: decreasing local rates."""

from fedtide.aggregation import WeightedSum
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import Everyone
from fedtide.schedules import PowerDecay, Unit
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.types import Work
from fedtide.work import Steps


@method(
    title="Stochastic approximation",
    purpose="heterogeneous data",
    facts=Facts(unbiased="all π equal and all α equal"),
    bibtex="""
    @misc{srihari2024stochastic,
      title = {Stochastic Approximation Approach to Federated Machine Learning},
      author = {{Srihari P V} and Bhikkaji, Bharath},
      eprint = {2402.12945}, archiveprefix = {arXiv}, year = {2024}
    }
    """,
)
def stochastic_approximation(
    rate: float = 0.1,
    server_rate: float = 1.0,
    power: float = 1.0,
    every: int = 1,
    unit: Unit = "epochs",
    work: Work = Steps(),
) -> Method:
    """FedAvg with equal weights and local rates that decrease as 1/n.

    w ← w − η_s Σ_{k∈S} Δ_k / |S| after local steps of rate a_n = η / (⌊n / `every`⌋ + 1)^δ, δ the `power`, n counted in
    `unit` from 0. `every` = 1 is a_n = η/n for n from 1; `every` = the epochs of a round is η / (round + 1), constant
    within a round. With all clients available the models converge to the minimiser of the mean of the F_k, where a
    constant rate leaves client drift; the theory requires ¾ < δ ≤ 1. δ = 0 is FedAvg with equal weights. The paper
    counts iterations in its theory and epochs in its experiments, which are the default. Rates that differ by client,
    which it leaves for future work, are the schedule `PerClient(factors, PowerDecay())` of `fedavg(weights="equal")`.

    Args:
        power: δ, the exponent of the decrease; ¾ < δ ≤ 1 in theory
        every: the number of units with the same rate
        unit: the unit that is counted
    """
    solver, server = Sgd(rate, work, PowerDecay(power, unit, every)), Optimiser(rate=server_rate)
    return Method("stochastic_approximation", Blind(), Everyone("equal"), solver, WeightedSum(), server)
