"""FedPBC: everybody trains on; the mean is returned after the round."""

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
    purpose="memory for the absent",
    facts=Facts(unbiased="over time, as η → 0 and all α equal: work done while absent arrives later", client_models=1),
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
    """Every client trains its own model all the time; those that are connected average theirs.

    All clients train x_k in every round. w ← w − η_s Σ_{k∈S} q_k (w − x_k), q_k = α_k / Σ_S α: the mean of the x_k of
    the connected at η_s = 1, which those of S take over as their x_k after the round, and nobody else. For clients that
    can compute but not always connect: N clients work in every round. Always on it is FedAvg. We evaluate the server's
    model; the authors evaluate the mean of all local models.
    """
    solver = OwnModel(Sgd(rate, work, schedule))
    return Method("fedpbc", Blind(), Everyone(), solver, WeightedSum(), Optimiser(rate=server_rate))
