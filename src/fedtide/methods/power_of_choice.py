"""Power of choice: train the clients with the largest losses, among a few candidates."""

from dataclasses import replace
from typing import Any

from fedtide.aggregation import WeightedSum
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, arguments_of, method
from fedtide.participation import HighestLoss
from fedtide.schedules import Constant
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.types import Schedule, Work
from fedtide.work import Steps

_BIBTEX = """
    @inproceedings{cho2022powerofchoice,
      title = {Towards Understanding Biased Client Selection in Federated Learning},
      author = {Cho, Yae Jee and Wang, Jianyu and Joshi, Gauri},
      booktitle = {AISTATS}, year = {2022}
    }
    """

_FACTS = Facts(
    unbiased="d = m, all α equal and all π equal",
    extra_up="1 scalar from each of d candidates",
    extra_down="the model to d candidates",
)


def _variant(name: str, base: Method, losses: str) -> Method:
    """The method, with a selection by other losses."""
    policy: Any = base.participation
    return replace(base, name=name, participation=replace(policy, losses=losses))


@method(title="pow-d", purpose="client selection", facts=_FACTS, bibtex=_BIBTEX)
def pow_d(
    rate: float = 0.1,
    server_rate: float = 1.0,
    clients: int = 10,
    candidates: int = 20,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Train the clients with the largest losses among a few candidates.

    d candidates are drawn without replacement with probabilities ∝ α_k and report F_k(w) over all their samples; S is
    the m of them with the largest losses, ties broken at random; w ← w − η_s (1/m) Σ_{k∈S} Δ_k. m is `clients`, d is
    `candidates`. Faster where losses differ, and biased towards large losses: the skew ρ of the selection is recorded
    with each evaluation. The paper calls d = m unbiased; without replacement this holds for equal α only.

    Args:
        clients: m, the number of clients that take part
        candidates: d, the number of candidates whose losses are compared
    """
    policy, server = HighestLoss(clients, candidates, "all"), Optimiser(rate=server_rate)
    return Method("pow_d", Blind(), policy, Sgd(rate, work, schedule), WeightedSum(), server)


@method(title="cpow-d", purpose="client selection", facts=_FACTS, bibtex=_BIBTEX)
@arguments_of(pow_d)
def cpow_d(*arguments: Any, **named: Any) -> Method:
    """Train the clients with the largest minibatch losses among a few candidates.

    Like `pow_d`, but candidates report the loss of one minibatch, which is cheaper:
    w ← w − η_s (1/m) Σ_{k∈S} Δ_k over the m = `clients` with the largest losses among d = `candidates`. Biased like
    `pow_d`, and less so where a minibatch's loss is noisy.
    """
    return _variant("cpow_d", pow_d(*arguments, **named), "minibatch")


@method(
    title="rpow-d",
    purpose="client selection",
    facts=Facts(unbiased=_FACTS.unbiased, server_scalars=True),
    bibtex=_BIBTEX,
)
@arguments_of(pow_d)
def rpow_d(*arguments: Any, **named: Any) -> Method:
    """Train the clients whose losses were the largest when they last trained, among a few candidates.

    Like `pow_d`, but without asking candidates: a candidate's loss is its mean over the local steps of its last round,
    and clients that have never trained come first; w ← w − η_s (1/m) Σ_{k∈S} Δ_k over the m = `clients` with the
    largest losses among d = `candidates`. Biased like `pow_d`. The mean loss comes with a client's update.
    """
    return _variant("rpow_d", pow_d(*arguments, **named), "remembered")


@method(
    title="adapow-d",
    purpose="client selection",
    facts=replace(_FACTS, unbiased="once d = m, all α equal and all π equal"),
    bibtex=_BIBTEX,
)
def adapow_d(
    rate: float = 0.1,
    server_rate: float = 1.0,
    clients: int = 10,
    candidates: int | None = None,
    halve_every: int = 50,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Train the clients with the largest losses among fewer and fewer candidates.

    Like `pow_d` with d_t = max(m, ⌈d / 2^⌊t/r⌋⌉): fast and biased at first, a uniform sample at the end;
    w ← w − η_s (1/m) Σ_{k∈S} Δ_k. m is `clients`, d is `candidates` (all clients by default), r is `halve_every`. The
    paper halves d every 5,000 rounds on quadratics; its code for networks has d = N for half of the rounds, then d = m.

    Args:
        clients: m, the number of clients that take part
        candidates: d in the first round; without it all clients
        halve_every: r, the number of rounds after which d is halved
    """
    policy, server = HighestLoss(clients, candidates, "all", halve_every), Optimiser(rate=server_rate)
    return Method("adapow_d", Blind(), policy, Sgd(rate, work, schedule), WeightedSum(), server)
