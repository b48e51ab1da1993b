"""Adaptive optimisers at the server: FedAdagrad, FedAdam and FedYogi."""

from dataclasses import replace
from typing import Any

from fedtide.aggregation import WeightedSum
from fedtide.errors import flag, number
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, arguments_of, method
from fedtide.participation import Everyone
from fedtide.schedules import Constant
from fedtide.servers import Optimiser, PublishedOptimiser
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
    purpose="heterogeneous data",
    facts=Facts(unbiased="all π equal and all α equal", server_models=2),
    bibtex=BIBTEX,
)
def fedadagrad(
    rate: float = 0.1,
    server_rate: float = 0.1,
    epsilon: float = 1e-3,
    published: bool = False,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """FedAvg's direction, divided by the root of the sum of its squares so far.

    v = Σ_{k∈S} q_k Δ_k, q_k = α_k / Σ_S α; u ← u + v², w ← w − η_s v / √(u + ε²), coordinate by coordinate,
    from u = ε². As in optax; the paper, and `published`, have √u + ε instead of the root.

    Args:
        epsilon: ε, the size below which gradients count as small
        published: whether the step is the paper's instead of optax's
    """
    flag("published", published)
    square = number("epsilon", epsilon, above=0) ** 2
    options = {"initial_accumulator_value": square, "eps": square}
    paper = PublishedOptimiser("adagrad", server_rate, epsilon=epsilon)
    server = paper if published else Optimiser("adagrad", server_rate, options)
    return Method("fedadagrad", Blind(), Everyone(), Sgd(rate, work, schedule), WeightedSum(), server)


@method(
    title="FedAdam",
    purpose="heterogeneous data",
    facts=Facts(unbiased="all π equal and all α equal", server_models=3),
    bibtex=BIBTEX,
)
def fedadam(
    rate: float = 0.1,
    server_rate: float = 0.1,
    b1: float = 0.9,
    b2: float = 0.99,
    epsilon: float = 1e-3,
    published: bool = False,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Adam at the server, with FedAvg's direction as its gradient.

    v = Σ_{k∈S} q_k Δ_k, q_k = α_k / Σ_S α; m ← b1 m + (1 − b1) v, u ← b2 u + (1 − b2) v², w ← w − η_s m̂ / (√û + ε),
    coordinate by coordinate. By optax: m̂ and û are corrected for their start at 0, where the paper, and `published`,
    starts u at ε² and corrects nothing.

    Args:
        b1: the decay of the mean of the gradients
        b2: the decay of the mean of their squares
        epsilon: ε, the size below which gradients count as small
        published: whether the step is the paper's instead of optax's
    """
    flag("published", published)
    # As floats, so that 0 can be swept together with others.
    options = {
        "b1": number("b1", b1, low=0, below=1),
        "b2": number("b2", b2, low=0, below=1),
        "eps": number("epsilon", epsilon, above=0),
    }
    paper = PublishedOptimiser("adam", server_rate, b1, b2, epsilon)
    server = paper if published else Optimiser("adam", server_rate, options)
    return Method("fedadam", Blind(), Everyone(), Sgd(rate, work, schedule), WeightedSum(), server)


@method(
    title="FedYogi",
    purpose="heterogeneous data",
    facts=Facts(unbiased="all π equal and all α equal", server_models=3),
    bibtex=BIBTEX,
)
@arguments_of(fedadam)
def fedyogi(*arguments: Any, **named: Any) -> Method:
    """Yogi at the server, with FedAvg's direction as its gradient.

    v = Σ_{k∈S} q_k Δ_k, q_k = α_k / Σ_S α; m ← b1 m + (1 − b1) v, u ← u − (1 − b2) v² sign(u − v²),
    w ← w − η_s m̂ / (√û + ε), coordinate by coordinate: u changes slowly where v is small. By optax: m and u
    start at 10⁻⁶, and m̂ and û are corrected as if they had started at 0, where the paper, and `published`, has no
    correction. So a coordinate whose v is always 0 also changes, by 8·10⁻⁴ η_s in the first step at the defaults, and
    less in each later one.
    """
    adam = fedadam(*arguments, **named)
    server: Any = adam.server
    return replace(adam, name="fedyogi", server=replace(server, algorithm="yogi"))
