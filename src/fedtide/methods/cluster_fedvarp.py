"""ClusterFedVARP: FedVARP with one remembered update for each cluster of clients."""

from jax import Array

from fedtide.aggregation import ClusterMemory
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.methods.fedvarp import BIBTEX
from fedtide.participation import Everyone, UniformSample
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.types import Schedule, Work
from fedtide.work import Steps


@method(
    title="ClusterFedVARP",
    purpose="memory for unavailable clients",
    facts=Facts(unbiased="all π equal", server_models=1, server_rows="K", server_scalars=True),
    bibtex=BIBTEX,
)
def cluster_fedvarp(
    rate: float = 0.1,
    server_rate: float = 1.0,
    clusters: int = 10,
    assignment: Array | None = None,
    clients: int | None = None,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Use the latest mean update of a client's cluster while the client does not take part.

    v = Σ_j α_j y_c(j) + Σ_{k∈S} q_k (Δ_k − y_c(k)) with the old y, q_k = α_k N/|S|; then y_c ← mean of Δ_k over S ∩ c,
    where that is not empty, and w ← w − η_s v. `assignment` gives the cluster c(k) of each client; without it clients
    are grouped by their label counts, which the server must then know. A cluster for each client is `fedvarp`; one for
    all is `fedavg` where the weights sum to 1. The server keeps K rows in place of N. In a round without available
    clients the step follows the memory: v = Σ_j α_j y_c(j).

    Args:
        clusters: K, the number of clusters
        assignment: the cluster of each client; without it clients are grouped by their label counts
        clients: m, the largest number of clients per round; all available clients by default
    """
    participation = Everyone("scaled") if clients is None else UniformSample(clients, "scaled")
    solver, memory = Sgd(rate, work, schedule), ClusterMemory(clusters, assignment)
    return Method("cluster_fedvarp", Blind(), participation, solver, memory, Optimiser(rate=server_rate))
