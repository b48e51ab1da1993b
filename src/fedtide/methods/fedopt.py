"""Adaptive optimisers at the server: FedAdagrad, FedAdam and FedYogi."""

from typing import Any

from fedtide.aggregation import WeightedSum
from fedtide.errors import number
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
from fedtide.participation import Everyone
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.types import Schedule, Work
from fedtide.work import Steps

BIBTEX = """
    @inproceedings{reddi2021adaptive,
      title = {Adaptive Federated Optimization},
      author = {Reddi, Sashank J. and Charles, Zachary and Zaheer, Manzil and Garrett, Zachary and Rush, Keith and
        Kone{\\v{c}}n{\\'y}, Jakub and Kumar, Sanjiv and McMahan, H. Brendan},
      booktitle = {ICLR}, year = {2021}
    }
    """


@method(
    title="FedAdagrad",
    purpose="different data",
    facts=Facts(unbiased="all π equal and all α equal", server_models=2),
    bibtex=BIBTEX,
)
def fedadagrad(
    rate: float = 0.1,
    server_rate: float = 0.1,
    epsilon: float = 1e-3,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """FedAvg's direction, divided by the root of the sum of its squares so far.

    v = Σ_{k∈S} q_k Δ_k, q_k = α_k / Σ_S α; u ← u + v², w ← w − η_s v / √(u + ε²), coordinate by coordinate,
    from u = ε². By optax; the paper has √u + ε for the root.
    """
    square = number("epsilon", epsilon, above=0) ** 2
    options = {"initial_accumulator_value": square, "eps": square}
    return _adaptive("fedadagrad", Sgd(rate, work, schedule), Optimiser("adagrad", server_rate, options))


@method(
    title="FedAdam",
    purpose="different data",
    facts=Facts(unbiased="all π equal and all α equal", server_models=3),
    bibtex=BIBTEX,
)
def fedadam(
    rate: float = 0.1,
    server_rate: float = 0.1,
    b1: float = 0.9,
    b2: float = 0.99,
    epsilon: float = 1e-3,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Adam at the server, with FedAvg's direction as its gradient.

    v = Σ_{k∈S} q_k Δ_k, q_k = α_k / Σ_S α; m ← b1 m + (1 − b1) v, u ← b2 u + (1 − b2) v²,
    w ← w − η_s m̂ / (√û + ε), coordinate by coordinate. By optax: m̂ and û are corrected for their start at 0, where the
    paper starts u at ε² and corrects nothing.
    """
    server = Optimiser("adam", server_rate, _moments(b1, b2, epsilon))
    return _adaptive("fedadam", Sgd(rate, work, schedule), server)


@method(
    title="FedYogi",
    purpose="different data",
    facts=Facts(unbiased="all π equal and all α equal", server_models=3),
    bibtex=BIBTEX,
)
def fedyogi(
    rate: float = 0.1,
    server_rate: float = 0.1,
    b1: float = 0.9,
    b2: float = 0.99,
    epsilon: float = 1e-3,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Yogi at the server, with FedAvg's direction as its gradient.

    v = Σ_{k∈S} q_k Δ_k, q_k = α_k / Σ_S α; m ← b1 m + (1 − b1) v, u ← u − (1 − b2) v² sign(u − v²),
    w ← w − η_s m̂ / (√û + ε), coordinate by coordinate: u changes slowly where v is small. By optax: m and u
    start at 10⁻⁶, and m̂ and û are corrected as if they had started at 0, where the paper corrects nothing. So a
    coordinate whose v is always 0 moves, too, by 8·10⁻⁴ η_s in the first step at the defaults, and ever less.
    """
    server = Optimiser("yogi", server_rate, _moments(b1, b2, epsilon))
    return _adaptive("fedyogi", Sgd(rate, work, schedule), server)


def _moments(b1: float, b2: float, epsilon: float) -> dict[str, Any]:
    """Options of optax, as floats, so that 0 can be swept together with others."""
    return {
        "b1": number("b1", b1, low=0, below=1),
        "b2": number("b2", b2, low=0, below=1),
        "eps": number("epsilon", epsilon, above=0),
    }


def _adaptive(name: str, solver: Sgd, server: Any) -> Method:
    return Method(name, Blind(), Everyone(), solver, WeightedSum(), server)
