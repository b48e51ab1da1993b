"""Cyclic participation: groups of clients take turns."""

from fedtide.aggregation import WeightedSum
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import CyclicGroups
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.types import Schedule, Work
from fedtide.work import Steps


@method(
    title="Cyclic participation",
    purpose="cyclic participation",
    facts=Facts(unbiased="equal groups, all π equal and all α equal"),
    bibtex="""
    @inproceedings{cho2023cyclic,
      title = {On the Convergence of Federated Averaging with Cyclic Client Participation},
      author = {Cho, Yae Jee and Sharma, Pranay and Joshi, Gauri and Xu, Zheng and Kale, Satyen and Zhang, Tong},
      booktitle = {ICML}, year = {2023}
    }
    """,
)
def cyclic_participation(
    rate: float = 0.1,
    server_rate: float = 1.0,
    groups: int = 5,
    clients: int | None = None,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Invite groups of clients in turn, always in the same order.

    w ← w − η_s Σ_{k∈S} q_k Δ_k, S the available clients of group t mod K̄ with q_k = α_k / Σ_S α, or with `clients` = m
    a sample of m of them with q_k = 1/m. K̄ is `groups`, each of consecutive clients. Each round is biased towards its
    group. The paper's three local solvers are three kinds of `work`: full gradients (GD) are FullBatch(τ), SGD is
    Steps(τ), and shuffled SGD is Epochs(1). One group is `fedavg`.

    Args:
        groups: K̄, the number of groups
        clients: m, the size of a sample of the group; without it all its available clients take part
    """
    policy = CyclicGroups(groups, clients, "ratio" if clients is None else "equal")
    solver = Sgd(rate, work, schedule)
    return Method("cyclic_participation", Blind(), policy, solver, WeightedSum(), Optimiser(rate=server_rate))
