"""When a recommendation would change, in words: at other horizons, on other fleets, with fewer limits."""

from collections.abc import Mapping
from typing import Any

from fedtide.report.recommendation_phrases import apart, interval, listed, share
from fedtide.report.statistics import Metric
from fedtide.report.words import clean, count

LIMITS = {
    "client_memory": "the limit on a device's memory",
    "server_memory": "the limit on the server's memory",
    "extra_messages": "the limit on extra messages",
    "floor": "the floor for the worst-served",
}


def changes(about: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    """When the answer would change: (what, a sentence, whether it does)."""
    reference = about["verdict"]["reference"]
    if reference is None:
        return []
    kind, name, found = about["kind"], clean(reference), []
    for row in _shorter(about):
        when = f"After {count(row['rounds'], 'round')}, {share(row['share'])} of the run,"
        found.append(("A shorter run", f"{when} {_turns(kind, name, reference, row, 'is', 'ends')}", row["changes"]))
    for row in about["scenarios"]:
        told = _turns(kind, name, reference, row, "would be", "would end")
        found.append(("Another fleet", f"If {row['words']}, {told}", row["changes"]))
    for row in about["relaxed"]:
        found.append(("Fewer limits", _freed(kind, name, row), row["changes"]))
    return found


def changes_in_short(about: Mapping[str, Any]) -> list[str]:
    """The same in a sentence: in which of the cases that were tried the answer is another."""
    if about["verdict"]["recommended"] is None:
        return []
    cases = [(f"after {count(row['rounds'], 'round')}", row) for row in _shorter(about)]
    cases += [(f"if {row['words']}", row) for row in about["scenarios"]]
    cases += [(f"without {LIMITS[row['constraint']]}", row) for row in about["relaxed"]]
    turned = [f"{when} ({clean(row['best'])})" for when, row in cases if row["changes"]]
    if not cases:
        return []
    if not turned:
        return [f"The answer stays in {_cases(len(cases), 'other')}."]
    rest = len(cases) - len(turned)
    stays = f"; it stays in {_cases(rest, 'other')}" if rest else ""
    return [f"The answer would change {listed(turned)}{stays}."]


def _cases(number: int, which: str) -> str:
    return f"the one {which} case that was tried" if number == 1 else f"the {number} {which} cases that were tried"


def _shorter(about: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [row for row in about["horizons"] if row["share"] < 1]


def _turns(kind: Metric, name: str, reference: str, row: Mapping[str, Any], be: str, end: str) -> str:
    """Who is best in another case, against the reference."""
    if row["best"] == reference:
        others = [m for m in row["level"] if m != reference]
        alike = f", level with {listed(others)}" if others else ""
        still = "still " if be == "would be" else ""
        return f"{name} {be.replace('be', still + 'be') if still else be} best{alike}: the answer stays."
    gap = row["difference"]
    if row["diverged"]:
        diverges = "would diverge" if be == "would be" else "diverges"
        under = count(row["diverged"], "seed")
        return f"{name} {diverges} under {under}, and {clean(row['best'])} {be} best: the answer would change."
    told = f"{apart(kind, gap)} {name} {interval(kind, gap)}"
    if row["changes"]:
        return f"{clean(row['best'])} {end} {told}: the answer would change."
    which = "does not matter here" if reference in row["close"] else "leaves them level"
    return f"{clean(row['best'])} {end} {told}, which {which}: the answer stays."


def _freed(kind: Metric, name: str, row: Mapping[str, Any]) -> str:
    gap = row["difference"]
    could = f"Without {LIMITS[row['constraint']]}, {listed(row['freed'])} could be used"
    who = "it" if len(row["freed"]) == 1 else f"the best of them, {clean(row['best'])},"
    return f"{could}: {who} ends {apart(kind, gap)} {name} {interval(kind, gap)}."
