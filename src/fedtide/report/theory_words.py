"""What theory says about a federation, in words."""

from collections import Counter
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from fedtide.report.words import clean, count, percent
from fedtide.theory.outlook import Forecast, Outlook

PARTS = {"convergence": "still to go", "bias": "bias", "cloud": "spread of runs"}
"""What a predicted error is made of, and what figures call it."""

_MEANING = {
    "convergence": "training has not arrived yet",
    "bias": "training is headed for the wrong place",
    "cloud": "runs scatter with who happens to be there",
}
_FAITHFUL = 0.005  # less misplaced importance than that is none
_NEVER = 1e-9  # availability of those who never come


class Kind(NamedTuple):
    """Clients alike in how they come and go."""

    name: str
    clients: np.ndarray  # their numbers
    availability: float  # mean π
    correlation: float  # mean λ
    absent_run: float  # mean rounds away in a row
    present_run: float
    target: float  # their share of α


def kinds(outlook: Outlook, most: int = 8) -> list[Kind]:
    """The kinds of clients, the most available first; rare kinds together where there are many."""
    names = np.array([clean(name) for name in outlook.fleet.kinds])
    counts = Counter(names.tolist())
    if len(counts) > most:
        kept = [name for name, _ in counts.most_common(most - 1)]
        names = np.where(np.isin(names, kept), names, "other")
    seen, found = outlook.presence, []
    for name in dict.fromkeys(names.tolist()):
        mine = np.flatnonzero(names == name)
        often, lasting, away, there = (
            float(np.mean(v[mine])) for v in (seen.availability, seen.correlation, seen.absent_run, seen.present_run)
        )
        if often <= _NEVER:
            away, there = np.inf, 0.0
        elif often >= 1 - _NEVER:
            away, there = 0.0, np.inf
        found.append(Kind(name, mine, often, lasting, away, there, float(outlook.fleet.importance[mine].sum())))
    return sorted(found, key=lambda kind: (-round(kind.availability, 6), kind.correlation))


def largest_part(forecast: Forecast) -> str:
    """The largest part of the predicted error at the end: convergence, bias or cloud."""
    assert forecast.path is not None
    path = forecast.path
    parts = {"convergence": path.convergence[-1], "bias": path.bias, "cloud": path.cloud[-1]}
    return max(parts, key=lambda name: parts[name])


def error(number: float) -> str:
    """A difference of objectives, in two digits."""
    if abs(number) < 1e-9:
        return "0"
    return f"{number:,.0f}" if 10 <= abs(number) < 1e6 else f"{number:.2g}".replace("-", "−")


def answer(outlook: Outlook) -> Markup:
    """Who is there, where methods are headed, who is ahead at the end and why."""
    said = [_presence(outlook), *_limits(outlook), *_race(outlook)]
    return Markup(" ").join(said)


def _presence(outlook: Outlook) -> Markup:
    groups = kinds(outlook)
    total, here = len(outlook.fleet.importance), float(outlook.presence.availability.sum())
    text = f"Of {count(total, 'client')}, {_about(here)} are there in a round on average."
    longest = max(groups, key=lambda k: k.absent_run)
    if not np.isfinite(longest.absent_run):
        text += f" Those of kind “{longest.name}” never come."
    elif len(groups) > 1 and longest.absent_run >= 2 * groups[0].absent_run:
        text += f" Those of kind “{longest.name}” stay away longest, {_about(longest.absent_run)} rounds in a row."
    return Markup("{}").format(text.replace(" = ", "\u00a0=\u00a0"))


def _limits(outlook: Outlook) -> list[Markup]:
    known = {label: f for label, f in outlook.forecasts.items() if f.misplaced is not None}
    faithful = [label for label, f in known.items() if (f.misplaced or 0) < _FAITHFUL]
    biased = [(label, f) for label, f in known.items() if label not in faithful]
    said = []
    if faithful:
        said.append(Markup("{} for the target.").format(_list(faithful, "is headed", "are headed")))
    if biased:
        worst_label, worst = max(biased, key=lambda item: _cost(item[1]))
        assert worst.misplaced is not None
        cost = f", which costs {error(worst.bias.error)} in the objective however long it trains" if worst.bias else ""
        text = "{} is farthest off: {} of the importance sits with the wrong clients{}."
        said.append(Markup(text).format(_name(worst_label), percent(worst.misplaced, 0), cost))
    return said


def _cost(forecast: Forecast) -> float:
    return forecast.bias.error if forecast.bias is not None else forecast.misplaced or 0.0


def _race(outlook: Outlook) -> list[Markup]:
    paths = {label: f for label, f in outlook.forecasts.items() if f.path is not None and not f.diverges}
    lost = [label for label, f in outlook.forecasts.items() if f.diverges]
    said = []
    if paths:
        # Where sampling or settling adds noise that the path leaves out, it would win unduly.
        fair = {label: f for label, f in paths.items() if not f.optimistic} or paths
        ends = {label: float(f.path.error[-1]) for label, f in fair.items() if f.path is not None}
        best = min(ends, key=lambda label: ends[label])
        alike = [label for label, end in ends.items() if abs(end - ends[best]) <= 1e-3 * abs(ends[best])]
        after = f"After {count(outlook.rounds, 'round')}"
        reason = _MEANING[largest_part(paths[best])]
        if len(paths) == 1:
            text = "{} {} is predicted to be {} above the optimum, mostly because {}."
            said.append(Markup(text).format(after, _name(best), error(ends[best]), reason))
        else:
            text = "{} {} predicted to be nearest to the optimum, {} above it; what is left is mostly because {}."
            said.append(Markup(text).format(after, _list(alike, "is", "are"), error(ends[best]), reason))
            said += _overtaken({label: f for label, f in fair.items() if label == best or label not in alike}, best)
    if lost:
        said.append(Markup("{} too large to converge.").format(_list(lost, "takes steps", "take steps")))
    return said


def _overtaken(paths: dict[str, Forecast], best: str) -> list[Markup]:
    """The method that the winner overtakes last, if any."""
    winner = paths[best].path
    assert winner is not None
    last, who = 0, None
    for label, f in paths.items():
        if label != best and f.path is not None:
            ahead = np.flatnonzero(f.path.error < winner.error)
            if len(ahead) and winner.rounds[ahead[-1]] > max(last, 0.02 * winner.rounds[-1]):
                last, who = int(winner.rounds[ahead[-1]]), label
    if who is None:
        return []
    return [Markup("Until about round {} {} is ahead.").format(f"{last:,}", _name(who))]


def left_out(outlook: Outlook, label: str) -> str:
    """Whom CA-Fed leaves out, by kind, in a sentence."""
    found = outlook.forecasts[label].exclusions
    assert found is not None
    out = np.flatnonzero(~found.kept & (outlook.fleet.importance > 0))
    if not len(out):
        return "It keeps everyone: leaving out any client would bias more than it speeds up."
    parts = []
    for kind in kinds(outlook):
        mine = np.isin(kind.clients, out).sum()
        if mine:
            parts.append(f"{mine} of the {len(kind.clients)} of kind “{kind.name}”")
    text = f"It leaves out {count(len(out), 'client')}: {_joined(parts)}."
    gone, kept = found.gap[out].mean(), found.gap[found.kept].mean()
    text += f" Their loss gap is {error(float(gone))} on average, that of the kept {error(float(kept))}."
    if not found.settled:
        text += " It does not settle: without them others look better, and it goes back and forth."
    return text.replace(" = ", "\u00a0=\u00a0")


def _about(number: float) -> str:
    return f"{number:,.1f}".rstrip("0").rstrip(".") if number < 10 else f"{number:,.0f}"


def _name(label: str) -> Markup:
    return Markup("<strong>{}</strong>").format(clean(label))


def _list(labels: list[str], one: str, several: str) -> Markup:
    names = [_name(label) for label in labels]
    if len(names) == 1:
        return Markup("{} {}").format(names[0], one)
    return Markup("{} and {} {}").format(Markup(", ").join(names[:-1]), names[-1], several)


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
