"""MIFA: the mean of all clients' latest updates."""

from fedtide.aggregation import LatestUpdates
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import Everyone
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.types import Schedule, Work
from fedtide.work import Steps


@method(
    title="MIFA",
    purpose="memory for unavailable clients",
    facts=Facts(unbiased="up to staleness, for any availability", server_models=2, server_rows="N"),
    bibtex="""
    @inproceedings{gu2021mifa,
      title = {Fast Federated Learning in the Presence of Arbitrary Device Unavailability},
      author = {Gu, Xinran and Huang, Kaixuan and Zhang, Jingzhao and Huang, Longbo},
      booktitle = {NeurIPS}, year = {2021}
    }
    """,
)
def mifa(
    rate: float = 0.1,
    server_rate: float = 1.0,
    wait: bool = False,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Step along the mean of all clients' latest updates, available or not.

    y_k ← Δ_k for all available k, then w ← w − η_s Σ_j α_j y_j. No estimate of availability is needed; the direction is
    biased by staleness only, and in a round without available clients the step follows the memory. In the paper all
    clients take part in the first round, and its code waits until every client has been available once: that is `wait`.
    Without it (the default, since one client that is never available would block all others) a client counts 0 until it
    has taken part.

    Args:
        wait: wait until every client has been available once
    """
    solver, memory = Sgd(rate, work, schedule), LatestUpdates(1.0, wait)
    return Method("mifa", Blind(), Everyone("fixed"), solver, memory, Optimiser(rate=server_rate))
