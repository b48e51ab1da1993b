"""Amplified SCAFFOLD: control variates and long steps of whole periods."""

from fedtide.aggregation import WeightedSum
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import Everyone
from fedtide.schedules import Constant
from fedtide.servers import Amplified, Optimiser
from fedtide.solvers import PeriodicControlVariate, Sgd
from fedtide.types import Schedule, Work
from fedtide.work import Steps


@method(
    title="Amplified SCAFFOLD",
    purpose="taking turns",
    facts=Facts(
        unbiased="over a period in which everybody takes part equally often",
        server_models=4,
        client_models=2,
        client_scalars=True,
        extra_up="d (the change of its mean gradient)",
        extra_down="d (c), once a period",
    ),
    bibtex="""
    @inproceedings{crawshaw2024periodic,
      title = {Federated Learning under Periodic Client Participation and Heterogeneous Data: A New
        Communication-Efficient Algorithm and Analysis},
      author = {Crawshaw, Michael and Liu, Mingrui},
      booktitle = {NeurIPS}, year = {2024}
    }
    """,
)
def amplified_scaffold(
    rate: float = 0.1,
    server_rate: float = 1.0,
    period: int = 10,
    factor: float = 1.5,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Local steps corrected by the gradients of the last period, and a long step along what each period achieved.

    w ← w − η_s Σ_{k∈S} q_k Δ_k, q_k = α_k / Σ_S α, with local steps along g − c_k + c; after every `period` = P rounds
    w ← w_P + γ (w − w_P), w_P the model P rounds ago. c_k is the mean of all gradients that client k took in the last
    period in which it took part, c = Σ α_k c_k; both change at the ends of periods only. For participation that evens
    out over P rounds. γ = 1 and P = 1 is SCAFFOLD.
    """
    solver = PeriodicControlVariate(Sgd(rate, work, schedule), period)
    server = Amplified(Optimiser(rate=server_rate), period, factor)
    return Method("amplified_scaffold", Blind(), Everyone(), solver, WeightedSum(), server)
