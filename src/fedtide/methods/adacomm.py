"""AdaComm: fewer local steps as the loss decreases."""

from fedtide.aggregation import WeightedSum
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import Everyone
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import AdaptiveSteps, Sgd
from fedtide.types import Schedule, Work
from fedtide.work import Steps

BIBTEX = """
    @inproceedings{wang2019adacomm,
      title = {Adaptive Communication Strategies to Achieve the Best Error-Runtime Trade-off in Local-Update {SGD}},
      author = {Wang, Jianyu and Joshi, Gauri},
      booktitle = {SysML}, year = {2019}
    }
    """


@method(
    title="AdaComm",
    purpose="heterogeneous data",
    facts=Facts(unbiased="all π equal and all α equal", extra_up="1 scalar (its loss)", extra_down="1 scalar (τ)"),
    bibtex=BIBTEX,
)
def adacomm(
    rate: float = 0.1,
    server_rate: float = 1.0,
    every: int = 10,
    shrink: float = 0.5,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """FedAvg with fewer local steps as the loss decreases: fast at first, accurate at the end.

    w ← w − η_s Σ_{k∈S} q_k Δ_k, q_k = α_k / Σ_S α, after at most τ local steps. After every `every` rounds τ ← ⌈√(F /
    F_0) τ_0⌉, or ⌈τ `shrink`⌉ where that is not less than τ; τ_0 is the number of steps of `work`. F is the mean local
    loss of the cohort. The paper's intervals are 60 seconds of wall-clock time; its factor for a decreasing η is left
    out.

    Args:
        every: rounds between two changes of τ
        shrink: the factor of τ where the loss does not reduce it
    """
    solver = AdaptiveSteps(Sgd(rate, work, schedule), every, shrink)
    return Method("adacomm", Blind(), Everyone(), solver, WeightedSum(), Optimiser(rate=server_rate))
