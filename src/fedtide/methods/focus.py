"""FOCUS: the server's direction is the sum of all clients' latest gradients."""

from fedtide.aggregation import Accumulated
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import Everyone
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import GradientTracking
from fedtide.types import Schedule, Work
from fedtide.work import Steps


@method(
    title="FOCUS",
    purpose="memory for unavailable clients",
    facts=Facts(unbiased="up to staleness; exactly at its fixed point", server_models=2, client_models=1),
    bibtex="""
    @inproceedings{ying2025focus,
      title = {Exact and Linear Convergence for Federated Learning under Arbitrary Client Participation is Attainable},
      author = {Ying, Bicheng and Li, Zhe and Yang, Haibo},
      booktitle = {NeurIPS}, year = {2025}
    }
    """,
)
def focus(rate: float = 0.1, server_rate: float = 1.0, work: Work = Steps(), schedule: Schedule = Constant()) -> Method:
    """Send the change of each client's gradient since its last upload, and sum the changes at the server.

    Client: y_k = 0, then in each local step x ← x − η y_k (not in the first), y_k ← y_k + g − g_prev, g_prev ← g (kept
    between rounds). Server: v ← v + Σ_{k∈S} α_k η y_k, w ← w − η_s v, also without available clients. It telescopes to
    v = η Σ α_k (last gradient of client k): with full gradients its only fixed point is the optimum, however unequal
    participation is. The paper sums instead of averaging, which is η_s = N with equal α.

    Args:
        server_rate: η_s, for the mean over clients; the paper's rate is for the sum: N times smaller with equal α
    """
    policy, solver = Everyone("fixed"), GradientTracking(rate, work, schedule)
    return Method("focus", Blind(), policy, solver, Accumulated(), Optimiser(rate=server_rate))
