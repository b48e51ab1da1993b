"""FedGS: clients with different data, chosen about equally often."""

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
    purpose="choosing whom to invite",
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
    """Choose clients with different data, and all about equally often.

    S of m = `clients` available ones with a large a · D(S) − Σ_S 2 (v_k − min v) / (N − 1), D the mean distance of two
    clients of S, v_k how often k was chosen, a = `spread`; w ← w − η_s Σ_{k∈S} (α_k / Σ_S α) Δ_k. a = 0 chooses those
    chosen least. Greedy search and swaps, where the authors use a commercial solver. Distances are shortest paths on
    the graph of similar label counts (edges exp(−s²/`scale`) where s ≥ `threshold`): the paper's oracle graph, which
    takes a server that may know the label counts; N² numbers, so at most 1,000 clients. Biased: who is rarely there is
    chosen less, though not as rarely as in a uniform sample.
    """
    policy, solver = GraphSpread(clients, spread, scale, threshold), Sgd(rate, work, schedule)
    return Method("fedgs", Blind(), policy, solver, WeightedSum(), Optimiser(rate=server_rate))
