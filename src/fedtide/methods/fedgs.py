"""FedGS: clients with different data, selected about equally often."""

from fedtide.aggregation import WeightedSum
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import GraphSpread
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.types import Schedule, Work
from fedtide.work import Steps


@method(
    title="FedGS",
    purpose="client selection",
    facts=Facts(unbiased="all clients chosen equally often, all α equal", server_scalars=True),
    bibtex="""
    @inproceedings{wang2023fedgs,
      title = {{FedGS}: Federated Graph-Based Sampling with Arbitrary Client Availability},
      author = {Wang, Zheng and Fan, Xiaoliang and Qi, Jianzhong and Jin, Haibing and Yang, Peizhen and Shen, Siqi and
        Wang, Cheng},
      booktitle = {AAAI}, year = {2023}
    }
    """,
)
def fedgs(
    rate: float = 0.1,
    server_rate: float = 1.0,
    clients: int = 10,
    spread: float = 0.1,
    scale: float = 0.01,
    threshold: float = 0.1,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Select clients with different data, and all about equally often.

    A set S of m = `clients` available clients with a large a · D(S) − Σ_S 2 (v_k − min v) / (N − 1), D the mean
    distance between two clients of S, v_k the number of times k was selected, a = `spread`; w ← w − η_s Σ_{k∈S} (α_k /
    Σ_S α) Δ_k. a = 0 selects the clients selected least. Greedy search and swaps, where the authors use a commercial
    solver. Distances are shortest paths in the graph of similar label counts (edges exp(−s²/`scale`) where s ≥
    `threshold`): the paper's oracle graph, for which the server must know the label counts; N² numbers, so at most
    1,000 clients. Biased: rarely available clients are selected less often, though more often than in a uniform sample.

    Args:
        clients: m, the largest number of clients per round
        spread: a, the weight of the distance between selected clients; 0 only equalises counts
        scale: the scale on which similarity shortens an edge of the graph
        threshold: the similarity below which there is no edge
    """
    policy, solver = GraphSpread(clients, spread, scale, threshold), Sgd(rate, work, schedule)
    return Method("fedgs", Blind(), policy, solver, WeightedSum(), Optimiser(rate=server_rate))
