"""Krum and multi-Krum: follow the updates that agree with most others."""

from fedtide.aggregation import Krum
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import Everyone, UniformSample
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.types import Schedule, Work
from fedtide.work import Steps


@method(
    title="Krum",
    purpose="adversarial clients",
    facts=Facts(unbiased="equal data and symmetric noise"),
    bibtex="""
    @inproceedings{blanchard2017krum,
      title = {Machine Learning with Adversaries: {Byzantine} Tolerant Gradient Descent},
      author = {Blanchard, Peva and {El Mhamdi}, El Mahdi and Guerraoui, Rachid and Stainer, Julien},
      booktitle = {NeurIPS}, year = {2017}
    }
    """,
)
def krum(
    rate: float = 0.1,
    server_rate: float = 1.0,
    attackers: int = 1,
    keep: int = 1,
    clients: int | None = None,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Step along the update with the nearest neighbours, or along the mean of a few such updates.

    w ← w − η_s v, v the mean of the `keep` updates with the smallest Σ ‖Δ_k − Δ_j‖² over their n − f − 2 nearest
    others; n = |S|, f is `attackers`. Krum keeps 1, multi-Krum more. S is all available clients, or with `clients` = m
    a sample of m of them. It withstands f attackers where n > 2f + 2, hence not in rounds with few participants; it
    ignores α, and follows one of the larger groups of clients with similar data.

    Args:
        attackers: f, the number of attackers that it should withstand
        keep: the number of updates that are averaged; at most n − f − 2
        clients: m, the largest number of clients per round; all available clients by default
    """
    participation = Everyone("equal") if clients is None else UniformSample(clients, "equal")
    solver, server = Sgd(rate, work, schedule), Optimiser(rate=server_rate)
    return Method("krum", Blind(), participation, solver, Krum(attackers, keep), server)
