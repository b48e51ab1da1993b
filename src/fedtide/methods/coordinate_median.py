"""Coordinate-wise median: robust to fewer than half of the participants."""

from fedtide.aggregation import CoordinateMedian
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import Everyone, UniformSample
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.types import Schedule, Work
from fedtide.work import Steps

BIBTEX = """
    @inproceedings{yin2018byzantine,
      title = {{Byzantine}-Robust Distributed Learning: Towards Optimal Statistical Rates},
      author = {Yin, Dong and Chen, Yudong and Ramchandran, Kannan and Bartlett, Peter},
      booktitle = {ICML}, year = {2018}
    }
    """


@method(
    title="Coordinate-wise median",
    purpose="adversarial clients",
    facts=Facts(unbiased="equal data and symmetric noise"),
    bibtex=BIBTEX,
)
def coordinate_median(
    rate: float = 0.1,
    server_rate: float = 1.0,
    clients: int | None = None,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Step along the median of every coordinate of the updates.

    w ← w − η_s v, v_i = median of (Δ_k)_i over S, the mean of the two middle values where |S| is even. S is all
    available clients, or with `clients` = m a sample of m of them. It withstands fewer than |S|/2 attackers, and
    ignores α and honest clients whose data few others have.

    Args:
        clients: m, the largest number of clients per round; all available clients by default
    """
    participation = Everyone("equal") if clients is None else UniformSample(clients, "equal")
    solver, server = Sgd(rate, work, schedule), Optimiser(rate=server_rate)
    return Method("coordinate_median", Blind(), participation, solver, CoordinateMedian(), server)
