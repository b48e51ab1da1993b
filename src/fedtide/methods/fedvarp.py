"""FedVARP: every client's latest update as a control variate."""

from fedtide.aggregation import LatestUpdates
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import Everyone, UniformSample
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.types import Schedule, Work
from fedtide.work import Steps

BIBTEX = """
    @inproceedings{jhunjhunwala2022fedvarp,
      title = {{FedVARP}: Tackling the Variance Due to Partial Client Participation in Federated Learning},
      author = {Jhunjhunwala, Divyansh and Sharma, Pranay and Nagarkatti, Aushim and Joshi, Gauri},
      booktitle = {UAI}, year = {2022}
    }
    """


@method(
    title="FedVARP",
    purpose="memory for unavailable clients",
    facts=Facts(unbiased="all π equal; the bias at unequal π is transient", server_models=2, server_rows="N"),
    bibtex=BIBTEX,
)
def fedvarp(
    rate: float = 0.1,
    server_rate: float = 1.0,
    clients: int | None = None,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Use a client's latest update while it does not take part.

    v = Σ_j α_j y_j + Σ_{k∈S} q_k (Δ_k − y_k) with the old y, q_k = α_k N/|S|; then y_k ← Δ_k on S and w ← w − η_s v. S
    is all available clients, or with `clients` = m a uniform sample of m of them. Removes the variance of sampling, not
    client drift. Where availability is unequal v is biased while y changes; with full gradients the fixed point is
    still the optimum. `fedstale` with β = 1 has the weights α_k / π̂_k, unbiased for any π. With α_k = 1/N this is the
    paper's equation; y is kept per unit of the local rate. In a round without available clients the step follows the
    memory: v = Σ_j α_j y_j.

    Args:
        clients: m, the largest number of clients per round; all available clients by default
    """
    participation = Everyone("scaled") if clients is None else UniformSample(clients, "scaled")
    solver = Sgd(rate, work, schedule)
    return Method("fedvarp", Blind(), participation, solver, LatestUpdates(), Optimiser(rate=server_rate))
