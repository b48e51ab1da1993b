"""Findings in words, and what they mean for the assumptions of CA-Fed's analysis."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedtide.fleet.diagnosis.findings import Alone, Assumption, Decided, Finding, Name, Reason, Undecided
from fedtide.fleet.diagnosis.nulls import relaxation, rounds_until_known
from fedtide.fleet.diagnosis.rates import BEGIN, LEAST_RUNS
from fedtide.fleet.diagnosis.together import LEAST_DEVICES
from fedtide.fleet.model import FleetModel
from fedtide.text import count, decimal, duration, listed

QUESTIONS: dict[Name, str] = {
    "order": "Does a device's next state depend only on its current state?",
    "homogeneity": "Are the probabilities of arriving and leaving the same at all hours of the day?",
    "week": "Are the probabilities of arriving and leaving the same at weekends?",
    "dwell": "Are the probabilities of leaving and returning independent of how long a device has been available or"
    " unavailable?",
    "day_later": "Is a device's state correlated with its state at the same time tomorrow?",
    "together": "Does the number of available devices vary as if devices were independent?",
    "together_after_clock": "And once the hour of the day is accounted for?",
}
_REASONS: dict[Reason, str] = {
    "no device": "no device was observed both to arrive and to leave",
    "one device": "only one device was observed both to arrive and to leave",
    "few rounds": "{} rounds are too few",
    "few changes": "no device arrived and left often enough",
    "few runs": f"{{}} complete stays and {{}} complete absences were observed, and {LEAST_RUNS} of each are needed",
    "short record": "the record covers {:.1f} days, and two are needed to detect a daily cycle",
    "long rounds": "rounds of {} are too long to resolve the day",
    "no date": "the log's clock has no date",
    "under two weeks": "the record covers {:.1f} days, and fourteen are needed",
    "few at a time": f"fewer than 20 rounds have {LEAST_DEVICES} or more observed devices",
}
_CLOSE = 0.1  # half width of the interval within which λ is to be known


def finding(answer: Decided | Undecided, round_seconds: int) -> Finding:
    """An answer with its question and its sentence."""
    name, question = answer.name, QUESTIONS[answer.name]
    if isinstance(answer, Undecided):
        numbers = [duration(int(n)) for n in answer.numbers] if answer.reason == "long rounds" else answer.numbers
        sentence = f"This record cannot answer the question: {_REASONS[answer.reason].format(*numbers)}."
        return Finding(name, question, sentence, None, None, None, None, None)
    lead, sentence = _lead(answer), _sentence(answer, round_seconds)
    if answer.excused:
        sentence += (
            f" Alone, this would be significant (p = {answer.p:.2g}); among {answer.excused} questions it is not, by"
            " Holm's correction."
        )
    return Finding(name, question, sentence, answer.holds, answer.statistic, answer.null, answer.p, answer.figure, lead)


class Group(NamedTuple):
    """Of transitions that are counted together."""

    words: str
    label: str  # for an axis
    phrases: tuple[str, str]  # which devices arrive, which leave


def groups(name: str, round_seconds: int) -> tuple[Group, ...]:
    """The groups of a question about rates, in the order in which `rates` counts them."""
    if name == "order":
        changed, unchanged = "changed in the previous round", "unchanged in the previous round"
        returning = "devices that left in the previous round return", "devices that arrived in the previous round leave"
        settled = (
            "devices unavailable for two rounds or more arrive",
            "devices available for two rounds or more leave",
        )
        return Group(changed, changed, returning), Group(unchanged, unchanged, settled)
    if name == "dwell":
        return tuple(
            _age(begin, after, round_seconds / 3600) for begin, after in zip(BEGIN, (*BEGIN[1:], 0), strict=True)
        )
    named = [(f"between {h} and {h + 6} h", f"{h} to {h + 6} h") for h in (0, 6, 12, 18)]
    if name == "week":
        named = [(day, day) for day in ("from Monday to Friday", "at weekends")]
    return tuple(Group(words, label, (f"{words} devices arrive", f"{words} devices leave")) for words, label in named)


def _age(begin: int, after: int, hours: float) -> Group:
    """Devices that have been in their state for `begin` rounds, up to and without `after` (0: or more)."""
    rounds, time = count(begin, "round"), f"{begin * hours:.2g} h"
    if after > begin + 1:
        rounds, time = f"{begin} to {after - 1} rounds", f"{begin * hours:.2g} to {(after - 1) * hours:.2g} h"
    more = "" if after else " or more"
    age = f"{rounds} ({time}){more}"
    phrases = f"devices unavailable for {age} arrive", f"devices available for {age} leave"
    return Group(age, f"{time}{more}", phrases)


def percent(share: float) -> str:
    """Without the sign."""
    return f"{100 * share:.0f}" if share == 0 or share >= 0.01 else f"{100 * share:.1f}"


def _expected(alone: Alone) -> str:
    return f"{percent(alone.null[0])} to {percent(alone.null[1])}% expected by chance"


def _lead(answer: Decided) -> str:
    """The answer to a question of yes or no, where the sentence has none."""
    match answer.name:
        case "day_later":
            return "No" if answer.holds else "Yes" if answer.higher else "Yes, negatively"
        case "together":
            return "Yes" if answer.holds else "No"
    return ""


def _sentence(answer: Decided, round_seconds: int) -> str:
    low, high = (decimal(bound) for bound in answer.null)
    statistic = f"{decimal(answer.statistic)} ({low} to {high} by chance)"
    alone, clearest = answer.alone, _clearest(answer, round_seconds)
    match answer.name:
        case "dwell":
            absences, stays = answer.runs
            lengths = f"The lengths of {stays:,} complete stays and {absences:,} complete absences"
            fit = (
                "agree with those of a Markov chain." if answer.holds else f"are not those of a Markov chain.{clearest}"
            )
            each = "" if alone is None else (
                f" Tested one by one, {percent(alone.share)}% of {alone.devices} devices deviate ({_expected(alone)})."
            )  # fmt: skip
            return f"{lengths} {fit}{each}"
        case "day_later":
            if answer.holds:
                why = ""
            elif answer.higher:
                why = " Devices are available at similar hours on successive days."
            else:
                why = " Devices that are available now are less likely to be available then."
            return f"The correlation is {statistic}.{why}"
        case "together" | "together_after_clock":
            return _together(answer, statistic)
    assert alone is not None
    devices, chance = f"{percent(alone.share)}% of {alone.devices} devices", _expected(alone)
    match answer.name:
        case "order":
            rest = "matters as well" if not answer.holds else "adds nothing that this record could show"
            return (
                f"A first-order chain in rounds of {duration(round_seconds)} is rejected at 5% for {devices}"
                f" ({chance}): the previous round {rest}.{'' if answer.holds else clearest}"
            )
        case "homogeneity":
            when, same = "over the day", "there is no evidence of a daily cycle"
        case _:
            when, same = "at weekends", "there is no evidence that weekends differ"
    return (
        f"Probabilities of arriving and leaving change {when} for {devices}, tested at 5% ({chance}):"
        f" {f'{same}.' if answer.holds else f'they are not constant.{clearest}'}"
    )


def _clearest(answer: Decided, round_seconds: int) -> str:
    """The clearest of the differences between groups."""
    if answer.clearest is None:
        return ""
    group, state, rate, low, high = answer.clearest
    phrase = groups(answer.name, round_seconds)[group].phrases[state]
    return f" Most clearly, {phrase} {rate:.2f} times as often as on average ({low:.2f} to {high:.2f} by chance)."


def _together(answer: Decided, statistic: str) -> str:
    after = answer.name == "together_after_clock"
    head = "With the hour of the day accounted for, the variance" if after else "The variance"
    if answer.holds:
        rest = f"There is no evidence of dependence{' beyond the daily cycle' if after else ''}."
    elif not answer.higher:
        rest = "Devices are negatively dependent: fewer are available at the same time than by chance."
    elif after:
        rest = "Something besides the hour (the weekday, an event, a group) makes devices available together."
    else:
        rest = "Devices tend to be available, and unavailable, at the same time."
    return f"{head} of the number of available devices, relative to independent devices, is {statistic}. {rest}"


def theory(model: FleetModel, findings: Sequence[Finding], inflated: np.ndarray | None) -> tuple[Assumption, ...]:
    """What the findings mean for each assumption. `inflated`: by how much the shared clock raises each device's λ."""
    by_name: dict[str, Finding] = {finding.name: finding for finding in findings}
    regular = model.devices.filter((model.devices["kind"] == "regular") & model.devices["correlation"].is_not_null())
    pi, lam = (regular[name].to_numpy().astype(float) for name in ("availability", "correlation"))
    assumptions = {
        "Independent clients": _independent(by_name["together"], by_name["together_after_clock"]),
        "Each client a two-state chain with constant probabilities": _homogeneous(by_name),
        "Every client is available sometimes (π > 0)": _positive(model),
    }
    if len(pi):
        assumptions["Mixing (λ < 1)"] = _mixing(lam, model.round_seconds)
        assumptions["Known π and λ"] = _known(pi, lam, model.round_seconds)
        assumptions["What estimators converge to"] = _estimates(by_name, inflated)
    return tuple(Assumption(*pair) for pair in assumptions.items())


def _independent(raw: Finding, after: Finding) -> str:
    if raw.holds is None or raw.statistic is None:
        return "This record is too small to test it."
    if raw.holds:
        return "There is no evidence against it."
    ratio = f"Violated: the number of available clients varies {raw.statistic:.1f} times as much as it would if"
    ratio += " they were independent"
    if after.statistic is None or after.holds is None:
        return f"{ratio}. The record is too short to tell whether the hour of the day explains it."
    larger = "The number of available clients fluctuates more than in the analysis"
    if after.holds:
        why = f"The daily cycle explains it. {larger} within a day, and as in the analysis over whole days."
    elif after.statistic < raw.statistic:
        why = f"The daily cycle explains only part of it. {larger}."
    else:
        why = f"The daily cycle does not explain it. {larger}."
    return f"{ratio} ({after.statistic:.1f} times with the hour of the day accounted for). {why}"


def _homogeneous(findings: dict[str, Finding]) -> str:
    against = {
        "order": "the next state depends on more than the current one",
        "homogeneity": "the probabilities change over the day",
        "week": "they differ at weekends",
        "dwell": "run lengths are not geometric",
        "day_later": "states are correlated from day to day",
    }
    decided = [name for name in against if findings[name].holds is not None]
    if not decided:
        return "This record is too small to test it."
    failed = [against[name] for name in decided if not findings[name].holds]
    if not failed:
        return "No test rejects it at this round length."
    rest = "The chain is then an approximation of a client, and bounds that rely on it are a guide, not a guarantee."
    return f"Violated: {listed(failed)}. {rest}"


def _positive(model: FleetModel) -> str:
    kinds, total = model.devices["kind"], count(len(model.devices), "device")
    never, seldom, brief = (
        f"{number} of {total} {'was' if number == 1 else 'were'}" if (number := int((kinds == kind).sum())) else ""
        for kind in ("never", "seldom", "brief")
    )
    parts = []
    if never:
        parts.append(
            f"{never} never available. No method can learn from data that it never receives: weights 1/π do not exist"
            " for these devices, and the target has to exclude them or accept the bias."
        )
    if seldom:
        parts.append(f"{seldom} almost never available, which makes weights 1/π large and poorly known.")
    if brief:
        parts.append(f"{brief} observed for less than a day, too short to estimate π.")
    return " ".join(parts) or f"Of {total}, each was available at some time."


def _mixing(lam: np.ndarray, seconds: int) -> str:
    middle, high = np.median(lam), np.quantile(lam, 0.9)
    times = [f"{rounds:.2g} rounds ({rounds * seconds / 3600:.2g} h)" for rounds in map(relaxation, (middle, high))]
    return (
        f"The median client has λ = {decimal(middle)} and a relaxation time of about {times[0]}; for the most"
        f" persistent 10% of clients, λ exceeds {decimal(high)} and the relaxation time {times[1]}. Training that is"
        " much longer averages over the fleet; shorter training depends on which clients happen to be available. CA-Fed"
        " considers the most persistent clients first for exclusion."
    )


def _known(pi: np.ndarray, lam: np.ndarray, seconds: int) -> str:
    needed = rounds_until_known(np.clip(pi, 1e-3, 1 - 1e-3), lam, _CLOSE)
    half, most = (
        f"{float(f'{rounds:.2g}'):,.0f} rounds ({float(f'{rounds * seconds / 86_400:.2g}'):,g} days)"
        for rounds in np.quantile(needed, [0.5, 0.9])
    )
    return (
        f"They have to be estimated. λ is known within ±{_CLOSE} after about {half} for half of the clients, and after"
        f" {most} for 90% of them."
    )


def _estimates(findings: dict[str, Finding], inflated: np.ndarray | None) -> str:
    if findings["homogeneity"].holds is None:
        return "π and λ if there is no daily cycle, which this record cannot show (too short, or rounds too long)."
    if findings["homogeneity"].holds and findings["day_later"].holds is not False:
        return "There is no evidence of a daily cycle: the Bayesian estimates converge to the chain's π and λ."
    gap = ""
    if inflated is not None:
        mean = float(np.mean(inflated))
        gap = f" (by {f'{mean:.2f}' if mean >= 0.005 else 'less than 0.005'} on average)"
    return (
        "With a daily cycle the Bayesian estimate of π converges to the average over whole days, which is wrong at any"
        f" single hour. That of λ exceeds the chain's own, since the shared cycle adds correlation{gap}."
    )
