"""FedAvg: average the updates of the available clients."""

from typing import Literal

from fedtide.aggregation import WeightedSum
from fedtide.errors import require
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import Everyone, SampleWithReplacement, UniformSample
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.types import Schedule, Work
from fedtide.work import Steps

BIBTEX = """
    @inproceedings{mcmahan2017fedavg,
      title = {Communication-Efficient Learning of Deep Networks from Decentralized Data},
      author = {McMahan, Brendan and Moore, Eider and Ramage, Daniel and Hampson, Seth and
        {Ag{\\"u}era y Arcas}, Blaise},
      booktitle = {AISTATS}, year = {2017}
    }
    """


@method(
    title="FedAvg",
    purpose="baselines",
    facts=Facts(unbiased="all π equal and all α equal"),
    bibtex=BIBTEX,
)
def fedavg(
    rate: float = 0.1,
    server_rate: float = 1.0,
    clients: int | None = None,
    weights: Literal["equal", "scaled", "ratio", "fixed", "with_replacement"] | None = None,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Average the updates of the available clients.

    w ← w − η_s Σ_{k∈S} q_k Δ_k, where Δ_k is client k's change after its local steps with rate η. S is all available
    clients, or with `clients` = m a sample of m of them. Biased towards clients that are available more often.
    The weights q_k of S:

    * `ratio`, α_k / Σ_S α (the default without `clients`): biased in general;
    * `equal`, 1/|S| (the default with `clients`): unbiased for equal α;
    * `scaled`, α_k N/|S|: unbiased for any α, not normalised;
    * `fixed`, α_k: absent clients count 0;
    * `with_replacement`: m draws ∝ α_k, each of weight 1/m: unbiased for any α.

    Args:
        clients: m, the largest number of clients per round; all available clients by default
        weights: the weights of the participants; see above
    """
    if weights == "with_replacement":
        require(clients is not None, "clients", clients, "the number of draws, for weights = 'with_replacement'")
        participation = SampleWithReplacement(clients)  # pyright: ignore[reportArgumentType]
    elif clients is None:
        participation = Everyone("ratio" if weights is None else weights)
    else:
        participation = UniformSample(clients, "equal" if weights is None else weights)
    solver = Sgd(rate, work, schedule)
    return Method("fedavg", Blind(), participation, solver, WeightedSum(), Optimiser(rate=server_rate))
