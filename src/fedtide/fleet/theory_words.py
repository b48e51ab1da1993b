"""What the assumptions of CA-Fed's analysis mean for a fleet, in sentences with its numbers."""

from collections.abc import Sequence

import numpy as np

from fedtide.fleet.diagnosis import Finding
from fedtide.fleet.diagnosis_words import length, percent
from fedtide.fleet.model import FleetModel

_CLOSE = 0.1  # to which λ is to be known
_NORMAL = 1.96


def theory(model: FleetModel, findings: Sequence[Finding], inflated: np.ndarray | None) -> tuple[str, ...]:
    """A few sentences an assumption. `inflated`: by how much λ is higher with the shared clock in it, each device."""
    found = {finding.name: finding for finding in findings}
    regular = model.devices.filter((model.devices["kind"] == "regular") & model.devices["correlation"].is_not_null())
    pi, lam = (regular[name].to_numpy().astype(float) for name in ("availability", "correlation"))
    said = [_independent(found), _homogeneous(found), _positive(model)]
    if len(pi):
        said += [_mixing(lam, model.round_seconds), _known(pi, lam, model.round_seconds), _estimates(found, inflated)]
    return tuple(said)


def _independent(found: dict[str, Finding]) -> str:
    head = "Independent clients: "
    raw, after = found["together"], found["together_after_clock"]
    if raw.holds is None or raw.statistic is None:
        return head + "this record is too small to say whether they are."
    if raw.holds:
        return head + "nothing speaks against it here, so the analysis applies in this respect."
    ratio = f"the number of clients that are here varies {raw.statistic:.1f} times as much as it assumes"
    if after.statistic is None or after.holds is None:
        return f"{head}not so here: {ratio}, and the record is too short to say whether the hour of the day is why."
    rest = f"{after.statistic:.1f} times with the hour of the day removed"
    larger = "Swings in the number of clients are larger than the analysis has them"
    if after.holds:
        why = "the day is their common cause. Averages over whole days are as the analysis has them; swings within a"
        why += " day are larger"
    elif after.statistic < raw.statistic:
        why = f"the day is a common cause, and not the only one. {larger}"
    else:
        why = f"the day is not why. {larger}"
    return f"{head}not so here: {ratio} ({rest}): {why}."


def _homogeneous(found: dict[str, Finding]) -> str:
    head = "Each client a two-state chain with constant probabilities: "
    against = {
        "order": "more than the present state matters",
        "homogeneity": "the probabilities change over the day",
        "week": "they differ at weekends",
        "dwell": "run lengths are not geometric",
        "day_later": "clients resemble themselves a day later",
    }
    decided = [name for name in against if found[name].holds is not None]
    if not decided:
        return head + "this record is too small to say."
    failed = [against[name] for name in decided if not found[name].holds]
    if not failed:
        return head + "no test speaks against it at this round length."
    first = failed[0] if len(failed) == 1 else f"{', '.join(failed[:-1])} and {failed[-1]}"
    rest = "The chain is then a summary of a client, and bounds that rest on it are a guide, not a guarantee."
    return f"{head}not in every respect: {first}. {rest}"


def _positive(model: FleetModel) -> str:
    kinds = model.devices["kind"]
    never, seldom, total = int((kinds == "never").sum()), int((kinds == "seldom").sum()), len(kinds)
    head = "Every client is available sometimes (π > 0): "
    brief = int((kinds == "brief").sum())
    if not never and not seldom and not brief:
        return f"{head}{'the one device' if total == 1 else f'each of the {total} devices'} was here in this record."
    parts = []
    if never:
        was = f"{'device' if total == 1 else 'devices'} {'was' if never == 1 else 'were'}"
        parts.append(
            f"{never} of {total} {was} never here ({percent(never / total)} %). No method can learn from data that it"
            " never meets; weights 1/π do not exist for them, and the target has to leave them out or accept the bias"
        )
    if seldom:
        was = "was" if seldom == 1 else "were"
        parts.append(f"{seldom} of {total} {was} almost never here, which makes weights 1/π large and hardly known")
    if brief:
        was = "was" if brief == 1 else "were"
        parts.append(f"{brief} of {total} {was} observed for less than a day, which says little about them")
    return f"{head}{'; '.join(parts)}."


def _mixing(lam: np.ndarray, seconds: int) -> str:
    middle, high = np.median(lam), np.quantile(lam, 0.9)
    rounds = [_relaxation(value) for value in (middle, high)]
    hours = [value * seconds / 3600 for value in rounds]
    return (
        f"Chains that forget (λ < 1): the median client has λ = {middle:.2f} and forgets in about"
        f" {rounds[0]:.2g} rounds ({hours[0]:.2g} h); the most persistent tenth has λ above {high:.2f} and takes"
        f" {rounds[1]:.2g} rounds ({hours[1]:.2g} h) or more. Training that is much longer sees an average fleet;"
        " shorter training sees whoever happens to be here. CA-Fed considers the most persistent clients first for"
        " leaving out."
    )


def _relaxation(lam: float) -> float:
    """−1/ln λ in rounds, at least one."""
    return max(1.0, -1 / np.log(np.clip(lam, 0.1, 1 - 1e-9)))


def rounds_until_known(pi: np.ndarray, lam: np.ndarray, close: float = _CLOSE) -> np.ndarray:
    """Rounds until λ̂ = P̂(on|on) + P̂(off|off) − 1 is within ± `close` at 95 %, from the variance of two proportions:
    visits are π and 1 − π of the rounds."""
    leave, arrive = (1 - lam) * (1 - pi), (1 - lam) * pi
    each = leave * (1 - leave) / np.maximum(pi, 1e-9) + arrive * (1 - arrive) / np.maximum(1 - pi, 1e-9)
    return each * (_NORMAL / close) ** 2


def _known(pi: np.ndarray, lam: np.ndarray, seconds: int) -> str:
    needed = rounds_until_known(np.clip(pi, 1e-3, 1 - 1e-3), lam)
    middle, most = np.quantile(needed, [0.5, 0.9])
    days = [f"{float(f'{value * seconds / 86_400:.2g}'):,g} days" for value in (middle, most)]
    return (
        f"Known π and λ: they have to be learnt. λ is within ± {_CLOSE} after about {_rounded(middle)} rounds of"
        f" {length(seconds)} ({days[0]}) for half of the clients, and after {_rounded(most)} ({days[1]}) for nine in"
        " ten."
    )


def _rounded(value: float) -> str:
    """Two digits: 1,300."""
    return f"{float(f'{value:.2g}'):,.0f}"


def _estimates(found: dict[str, Finding], inflated: np.ndarray | None) -> str:
    head = "What estimators converge to: "
    steady = found["homogeneity"].holds and found["day_later"].holds is not False
    if found["homogeneity"].holds is None:
        return (
            head + "π and λ if the day does not matter, which this record cannot say (too short, or rounds too long)."
        )
    if steady:
        return head + "with no daily cycle to be seen, the Bayesian estimates of π and λ converge to the chain's."
    gap = ""
    if inflated is not None:
        mean = float(np.mean(inflated))
        gap = f", here by {mean:.2f} on average" if mean >= 0.005 else ", though here by less than 0.005 on average"
    return (
        f"{head}under a daily cycle the Bayesian estimate of π is right as an average over whole days, and wrong at any"
        f" one hour; that of λ comes out higher than the chain's own, since the shared hour is taken for memory{gap}."
    )
