"""A prediction in words."""

from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from fedtide.report.clients import few
from fedtide.text import clean, count, listed, minus, percent, unbroken
from fedtide.theory.exclusions import SettledExclusions
from fedtide.theory.prediction import MethodPrediction, Prediction
from fedtide.theory.trajectory import Path, overtaking

_MEANING = {
    "convergence": "training has not converged yet",
    "bias": "its limit is biased",
    "variance": "random availability makes runs vary",
}
_UNBIASED = 0.005  # less misplaced importance counts as none
_NEVER = 1e-9  # availability below which clients count as never available


class Kind(NamedTuple):
    """Clients of similar availability."""

    name: str
    clients: np.ndarray  # their indices
    availability: float  # mean π
    correlation: float  # mean λ
    absent_run: float  # mean length of absence in rounds
    present_run: float  # mean length of availability in rounds
    target: float  # their share of α


def kinds(prediction: Prediction, most: int = 8) -> list[Kind]:
    """The kinds of clients, the most available first; small kinds are merged if there are many."""
    names = np.array(few([clean(name) for name in prediction.clients.kinds], most))
    presence, result = prediction.presence, []
    for name in dict.fromkeys(names.tolist()):
        mine = np.flatnonzero(names == name)
        availability, correlation, present, absent = (float(np.mean(values[mine])) for values in presence[:4])
        if availability <= _NEVER:
            absent, present = np.inf, 0.0
        elif availability >= 1 - _NEVER:
            absent, present = 0.0, np.inf
        target = float(prediction.clients.importance[mine].sum())
        result.append(Kind(name, mine, availability, correlation, absent, present, target))
    return sorted(result, key=lambda kind: (-round(kind.availability, 6), kind.correlation))


def error(number: float) -> str:
    """A difference of objectives, to two digits."""
    if abs(number) < 1e-9:
        return "0"
    return f"{number:,.0f}" if 10 <= abs(number) < 1e6 else minus(f"{number:.2g}")


def answer(prediction: Prediction) -> Markup:
    """Availability, limits of the methods, and the method with the lowest error at the end."""
    sentences = [_presence(prediction), *_limits(prediction), *_race(prediction)]
    return Markup(" ").join(sentences)


def _presence(prediction: Prediction) -> Markup:
    groups = kinds(prediction)
    total, available = len(prediction.clients.importance), float(prediction.presence.availability.sum())
    text = f"Of {count(total, 'client')}, {_about(available)} are available per round on average."
    longest = max(groups, key=lambda k: k.absent_run)
    if not np.isfinite(longest.absent_run):
        text += f" Clients of kind “{longest.name}” are never available."
    elif len(groups) > 1 and longest.absent_run >= 2 * groups[0].absent_run:
        rounds = _about(longest.absent_run)
        text += f" Clients of kind “{longest.name}” have the longest absences, {rounds} rounds on average."
    return Markup("{}").format(unbroken(text))


def _limits(prediction: Prediction) -> list[Markup]:
    known = {label: f for label, f in prediction.methods.items() if f.misplaced is not None}
    unbiased = [label for label, f in known.items() if (f.misplaced or 0) < _UNBIASED]
    biased = [(label, f) for label, f in known.items() if label not in unbiased]
    sentences = []
    if unbiased:
        sentences.append(Markup("{} an unbiased limit.").format(_list(unbiased, "has", "have")))
    if biased:
        worst_label, worst = max(biased, key=lambda item: _cost(item[1]))
        assert worst.misplaced is not None
        cost = f", which raises the objective at its limit by {error(worst.bias.error)}" if worst.bias else ""
        text = "{} has the largest bias: {} of the importance is misplaced{}."
        sentences.append(Markup(text).format(_name(worst_label), percent(worst.misplaced, 0), cost))
    return sentences


def _cost(predicted: MethodPrediction) -> float:
    return predicted.bias.error if predicted.bias is not None else predicted.misplaced or 0.0


def _race(prediction: Prediction) -> list[Markup]:
    paths, methods = prediction.paths, prediction.methods
    divergent = [label for label, f in methods.items() if f.diverges]
    sentences = []
    if paths:
        # Paths that leave out noise of sampling or of estimates are too low for a fair comparison.
        fair = {label: path for label, path in paths.items() if not methods[label].optimistic} or paths
        ends = {label: float(path.error[-1]) for label, path in fair.items()}
        best = min(ends, key=lambda label: ends[label])
        alike = [label for label, end in ends.items() if abs(end - ends[best]) <= 1e-3 * abs(ends[best])]
        after = f"After {count(prediction.rounds, 'round')}"
        reason = _MEANING[paths[best].parts.largest]
        if len(paths) == 1:
            text = "{}, {} is predicted to be {} above the optimum, mainly because {}."
            sentences.append(Markup(text).format(after, _name(best), error(ends[best]), reason))
        else:
            text = "{}, {} predicted to be nearest to the optimum, {} above it, mainly because {}."
            sentences.append(Markup(text).format(after, _list(alike, "is", "are"), error(ends[best]), reason))
            others = {label: path for label, path in fair.items() if label not in alike}
            sentences += _overtaken(others, best, fair[best])
    if divergent:
        sentences.append(Markup("{}: the step is too large.").format(_list(divergent, "diverges", "diverge")))
    return sentences


def _overtaken(others: dict[str, Path], best: str, winner: Path) -> list[Markup]:
    """The method that the best one overtakes last, if any."""
    last, who = 0.02 * winner.rounds[-1], None
    for label, path in others.items():
        since = overtaking((best, winner.error), (label, path.error)).round
        if since is not None and winner.rounds[since - 1] > last:
            last, who = int(winner.rounds[since - 1]), label
    if who is None:
        return []
    return [Markup("Until about round {}, {} has a lower error.").format(f"{last:,}", _name(who))]


def left_out(prediction: Prediction, exclusions: SettledExclusions) -> str:
    """The clients that CA-Fed excludes, by kind."""
    out = np.flatnonzero(~exclusions.kept & (prediction.clients.importance > 0))
    if not len(out):
        return "It keeps all clients: excluding any client would add more bias than it would gain."
    parts = []
    for kind in kinds(prediction):
        mine = np.isin(kind.clients, out).sum()
        if mine:
            parts.append(f"{mine} of the {len(kind.clients)} of kind “{kind.name}”")
    text = f"It excludes {count(len(out), 'client')}: {listed(parts)}."
    gone, kept = exclusions.gap[out].mean(), exclusions.gap[exclusions.kept].mean()
    text += f" Their mean loss gap is {error(float(gone))}, that of the other clients {error(float(kept))}."
    if not exclusions.settled:
        text += " The choice does not settle: it changes the gaps, and CA-Fed alternates between sets of clients."
    return unbroken(text)


def _about(number: float) -> str:
    return f"{number:,.1f}".rstrip("0").rstrip(".") if number < 10 else f"{number:,.0f}"


def _name(label: str) -> Markup:
    return Markup("<strong>{}</strong>").format(clean(label))


def _list(labels: list[str], one: str, several: str) -> Markup:
    names = Markup(listed([_name(label) for label in labels]))
    return Markup("{} {}").format(names, one if len(labels) == 1 else several)
