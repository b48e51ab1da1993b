"""SCAFFOLD: local steps corrected for client drift."""

from fedtide.aggregation import WeightedSum
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import Everyone
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import ControlVariate, Sgd
from fedtide.types import Schedule, Work
from fedtide.work import Steps


@method(
    title="SCAFFOLD",
    purpose="heterogeneous data",
    facts=Facts(
        unbiased="all π equal and all α equal; the bias at unequal π is transient",
        server_models=2,
        client_models=1,
        extra_up="d (the change of its c_k)",
        extra_down="d (c)",
    ),
    bibtex="""
    @inproceedings{karimireddy2020scaffold,
      title = {{SCAFFOLD}: Stochastic Controlled Averaging for Federated Learning},
      author = {Karimireddy, Sai Praneeth and Kale, Satyen and Mohri, Mehryar and Reddi, Sashank and
        Stich, Sebastian and Suresh, Ananda Theertha},
      booktitle = {ICML}, year = {2020}
    }
    """,
)
def scaffold(
    rate: float = 0.1, server_rate: float = 1.0, work: Work = Steps(), schedule: Schedule = Constant()
) -> Method:
    """Correct local gradients by each client's earlier gradient and the mean over all clients.

    w ← w − η_s Σ_{k∈S} q_k Δ_k, q_k = α_k / Σ_S α, with local steps along g − c_k + c. After them
    c_k⁺ = c_k − c + Δ_k / (η τ_k) (option II of the paper) and c ← c + Σ_S α_k (c_k⁺ − c_k), so c = Σ α_k c_k always.
    Removes client drift: with full gradients its only fixed point is the optimum (there g_k = c_k and c = 0), however
    many local steps and however rarely some clients are available. Before that it is biased towards available clients,
    and the corrections of rarely available clients are old. The first round is FedAvg's.
    """
    solver = ControlVariate(Sgd(rate, work, schedule))
    return Method("scaffold", Blind(), Everyone(), solver, WeightedSum(), Optimiser(rate=server_rate))
