"""FedLaAvg: the mean of all clients' latest updates, oldest ones refreshed first."""

from fedtide.aggregation import LatestUpdates
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import LeastRecent
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.types import Schedule, Work
from fedtide.work import Steps


@method(
    title="FedLaAvg",
    purpose="memory for unavailable clients",
    facts=Facts(
        unbiased="up to staleness, for any availability", server_models=2, server_rows="N", server_scalars=True
    ),
    bibtex="""
    @article{yan2020fedlaavg,
      title = {Distributed Non-Convex Optimization with Sublinear Speedup under Intermittent Client Availability},
      author = {Yan, Yikai and Niu, Chaoyue and Ding, Yucheng and Zheng, Zhenzhe and Wu, Fan and Chen, Guihai and
        Tang, Shaojie and Wu, Zhihua},
      journal = {arXiv preprint arXiv:2002.07399}, year = {2020}
    }
    """,
)
def fedlaavg(
    rate: float = 0.1,
    server_rate: float = 1.0,
    clients: int = 10,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Step along the mean of all clients' latest updates, and invite the clients with the oldest ones.

    S = the `clients` available clients that took part longest ago; y_k ← Δ_k on S, then w ← w − η_s Σ_j α_j y_j. Biased
    by staleness only; in a round without available clients the step follows the memory. Where all available clients can
    be invited it is `mifa`. In the paper clients keep y_k and send the difference; here the server keeps the rows.

    Args:
        clients: the largest number of clients per round
    """
    solver, memory = Sgd(rate, work, schedule), LatestUpdates()
    return Method("fedlaavg", Blind(), LeastRecent(clients), solver, memory, Optimiser(rate=server_rate))
