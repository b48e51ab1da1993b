"""FedPBC: all clients train in every round; available ones receive the mean."""

from fedtide.aggregation import WeightedSum
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import Everyone
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import OwnModel, Sgd
from fedtide.types import Schedule, Work
from fedtide.work import Steps


@method(
    title="FedPBC",
    purpose="memory for unavailable clients",
    facts=Facts(unbiased="over time, as η → 0 and all α equal: offline work arrives later", client_models=1),
    bibtex="""
    @inproceedings{xiang2023fedpbc,
      title = {Towards Bias Correction of {FedAvg} over Nonuniform and Time-Varying Communications},
      author = {Xiang, Ming and Ioannidis, Stratis and Yeh, Edmund and Joe-Wong, Carlee and Su, Lili},
      booktitle = {IEEE Conference on Decision and Control}, year = {2023}
    }
    """,
)
def fedpbc(
    rate: float = 0.1, server_rate: float = 1.0, work: Work = Steps(), schedule: Schedule = Constant()
) -> Method:
    """Let every client train its own model in every round, and average the models of the available clients.

    All clients train x_k in every round. w ← w − η_s Σ_{k∈S} q_k (w − x_k), q_k = α_k / Σ_S α: at η_s = 1 the mean of
    the x_k of S, which replaces the x_k of S after the round. For clients that can always compute but not always
    connect: N clients train in every round. With all clients always available it is FedAvg. The evaluated model is the
    server's; the authors evaluate the mean of all local models.
    """
    solver = OwnModel(Sgd(rate, work, schedule))
    return Method("fedpbc", Blind(), Everyone(), solver, WeightedSum(), Optimiser(rate=server_rate))
