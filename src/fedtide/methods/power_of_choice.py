"""Power of choice: train where the loss is largest, among a few candidates."""

from fedtide.aggregation import WeightedSum
from fedtide.estimators import Blind
from fedtide.methods.base import Facts, Method, method
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

_UNBIASED = "d = m, all α equal and all π equal"


def _method(name: str, policy: HighestLoss, rate: float, server_rate: float, work: Work, schedule: Schedule) -> Method:
    return Method(name, Blind(), policy, Sgd(rate, work, schedule), WeightedSum(), Optimiser(rate=server_rate))


@method(
    title="pow-d",
    purpose="choosing whom to invite",
    facts=Facts(
        unbiased=_UNBIASED,
        needs_losses=True,
        extra_up="1 scalar from each of d candidates",
        extra_down="the model to d candidates",
    ),
    bibtex=_BIBTEX,
)
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
    with each evaluation. The paper calls d = m unbiased; without replacement that holds for equal α only.
    """
    return _method("pow_d", HighestLoss(clients, candidates, "all"), rate, server_rate, work, schedule)


@method(
    title="cpow-d",
    purpose="choosing whom to invite",
    facts=Facts(
        unbiased=_UNBIASED,
        needs_losses=True,
        extra_up="1 scalar from each of d candidates",
        extra_down="the model to d candidates",
    ),
    bibtex=_BIBTEX,
)
def cpow_d(
    rate: float = 0.1,
    server_rate: float = 1.0,
    clients: int = 10,
    candidates: int = 20,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Train the clients with the largest minibatch losses among a few candidates.

    As `pow_d`, but candidates report the loss of one minibatch, which costs them less:
    w ← w − η_s (1/m) Σ_{k∈S} Δ_k over the m = `clients` with the largest among d = `candidates`. Biased as `pow_d`,
    less so where a minibatch's loss is noisy.
    """
    return _method("cpow_d", HighestLoss(clients, candidates, "minibatch"), rate, server_rate, work, schedule)


@method(
    title="rpow-d",
    purpose="choosing whom to invite",
    facts=Facts(unbiased=_UNBIASED, server_scalars=True),
    bibtex=_BIBTEX,
)
def rpow_d(
    rate: float = 0.1,
    server_rate: float = 1.0,
    clients: int = 10,
    candidates: int = 20,
    work: Work = Steps(),
    schedule: Schedule = Constant(),
) -> Method:
    """Train the clients whose losses were the largest when they last trained, among a few candidates.

    As `pow_d`, but nobody is asked: a candidate's loss is its mean over the local steps of its last round, and who has
    never trained comes first; w ← w − η_s (1/m) Σ_{k∈S} Δ_k over the m = `clients` with the largest among
    d = `candidates`. Biased as `pow_d`. The mean loss comes with a client's update.
    """
    return _method("rpow_d", HighestLoss(clients, candidates, "remembered"), rate, server_rate, work, schedule)


@method(
    title="adapow-d",
    purpose="choosing whom to invite",
    facts=Facts(
        unbiased="once d = m, all α equal and all π equal",
        needs_losses=True,
        extra_up="1 scalar from each of d candidates",
        extra_down="the model to d candidates",
    ),
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
    """Train the clients with the largest losses among ever fewer candidates.

    As `pow_d` with d_t = max(m, ⌈d / 2^⌊t/r⌋⌉): fast and biased at first, a plain sample in the end;
    w ← w − η_s (1/m) Σ_{k∈S} Δ_k. m is `clients`, d is `candidates` (all clients by default), r is `halve_every`. The
    paper halves d every 5,000 rounds on quadratics; its code for networks has d = N for half of the rounds, then d = m.
    """
    return _method("adapow_d", HighestLoss(clients, candidates, "all", halve_every), rate, server_rate, work, schedule)
