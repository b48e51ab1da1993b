"""FedAsync: mix each model that arrives into the server's."""

from fedtide.aggregation import AgeWeighted, WeightedSum
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import Everyone
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Proximal, WholeModel
from fedtide.staleness import Polynomial
from fedtide.types import Schedule, Staleness, Work
from fedtide.work import Steps

BIBTEX = """
    @inproceedings{xie2020fedasync,
      title = {Asynchronous Federated Optimization},
      author = {Xie, Cong and Koyejo, Oluwasanmi and Gupta, Indranil},
      booktitle = {OPT: 12th Annual Workshop on Optimization for Machine Learning}, year = {2020}
    }
    """


@method(
    title="FedAsync",
    purpose="asynchronous training",
    facts=Facts(unbiased="all clients equally available and fast, and all α equal"),
    bibtex=BIBTEX,
)
def fedasync(
    rate: float = 0.1,
    server_rate: float = 0.6,
    mu: float = 0.005,
    staleness: Staleness = Polynomial(),
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Mix each model that arrives into the server's, old ones with less weight; for asynchronous training.

    w ← w − η_s s(age_k) (w − w_k), where w_k is client k's model after local steps on F_k + (μ/2) ‖· − w_t‖² from the
    model w_t that it received, age_k server steps ago. Biased towards fast clients, which arrive more often. It belongs
    to the barrier `Buffer(k=1, concurrency=…)`; where several models arrive between two server steps, each counts
    equally.

    Args:
        server_rate: η_s, the weight of a model of age 0
        mu: μ, the strength of the proximal term
        staleness: s, the weight by age: 1/√(1 + age) by default
    """
    solver = WholeModel(Proximal(rate, mu, work, schedule))
    aggregation = AgeWeighted(WeightedSum(), staleness)
    return Method("fedasync", Blind(), Everyone("equal"), solver, aggregation, Optimiser(rate=server_rate))
