"""FedAvg: average whoever is there."""

from fedtide.aggregation import WeightedSum
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import Everyone, UniformSample
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.types import Work
from fedtide.work import Steps


@method(
    title="FedAvg",
    facts=Facts(unbiased="all π equal and all α equal"),
    bibtex="""
    @inproceedings{mcmahan2017fedavg,
      title = {Communication-Efficient Learning of Deep Networks from Decentralized Data},
      author = {McMahan, Brendan and Moore, Eider and Ramage, Daniel and Hampson, Seth and
        {Ag{\\"u}era y Arcas}, Blaise},
      booktitle = {AISTATS}, year = {2017}
    }
    """,
)
def fedavg(rate: float = 0.1, server_rate: float = 1.0, clients: int | None = None, work: Work = Steps()) -> Method:
    """Average the updates of whoever is there, by importance.

    w ← w − η_s Σ_{k∈A} (α_k / Σ_A α) Δ_k, where Δ_k is client k's change after its local steps with rate η. With
    `clients` = m a uniform sample of m available clients takes part, each with the same weight. Learns for the
    available: a client that is rarely there counts rarely.
    """
    participation = Everyone() if clients is None else UniformSample(clients)
    return Method("fedavg", Blind(), participation, Sgd(rate, work), WeightedSum(), Optimiser(rate=server_rate))
