"""FedBuff: average the updates of a buffer, old ones with less weight."""

from fedtide.aggregation import AgeWeighted, WeightedSum
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import Everyone
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.staleness import Polynomial
from fedtide.types import Schedule, Staleness, Work
from fedtide.work import Steps

BIBTEX = """
    @inproceedings{nguyen2022fedbuff,
      title = {Federated Learning with Buffered Asynchronous Aggregation},
      author = {Nguyen, John and Malik, Kshitiz and Zhan, Hongyuan and Yousefpour, Ashkan and Rabbat, Michael and
        Malek, Mani and Huba, Dzmitry},
      booktitle = {AISTATS}, year = {2022}
    }
    """


@method(
    title="FedBuff",
    purpose="asynchronous training",
    facts=Facts(unbiased="all clients equally available and fast, and all α equal"),
    bibtex=BIBTEX,
)
def fedbuff(
    rate: float = 0.1,
    server_rate: float = 1.0,
    staleness: Staleness = Polynomial(),
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Average the updates of a buffer, old ones with less weight; for asynchronous training.

    w ← w − η_s (1/K) Σ_{k∈B} s(age_k) Δ_k, where B are the K clients that have arrived since the last server step and
    age_k is the number of server steps since client k received its model. Biased towards fast clients, which arrive
    more often. It belongs to the barrier `Buffer(k=K, concurrency=…)`; without a clock it is FedAvg with equal weights.

    Args:
        staleness: s, the weight by age: 1/√(1 + age) by default
    """
    aggregation = AgeWeighted(WeightedSum(), staleness)
    solver = Sgd(rate, work, schedule)
    return Method("fedbuff", Blind(), Everyone("equal"), solver, aggregation, Optimiser(rate=server_rate))
