"""When a recommendation would change, in words: at other horizons, on other fleets, with fewer limits."""

from collections.abc import Mapping
from typing import Any, Literal

from fedtide.report.recommendation_phrases import apart, cannot_tell, interval, listed, share
from fedtide.report.statistics import Metric
from fedtide.report.words import clean, count

Outcome = Literal["changes", "stays", "cannot tell"]
LIMITS = {
    "client_memory": "the limit on a device's memory",
    "server_memory": "the limit on the server's memory",
    "extra_messages": "the limit on extra messages",
    "floor": "the floor for the worst-served",
}


def changes(about: Mapping[str, Any]) -> list[tuple[str, str, Outcome]]:
    """When the answer would change: (what, a sentence, whether it does)."""
    reference = about["verdict"]["reference"]
    if reference is None:
        return []
    kind, seeds, name, found = about["kind"], about["seeds"], clean(reference), []
    for row in _shorter(about):
        when = f"After {count(row['rounds'], 'round')}, {share(row['share'])} of the run,"
        told = _turns(kind, name, reference, row, "is", "ends", seeds)
        found.append(("A shorter run", f"{when} {told}", _outcome(reference, row)))
    for row in about["scenarios"]:
        told = _turns(kind, name, reference, row, "would be", "would end", seeds)
        found.append(("Another fleet", f"If {row['words']}, {told}", _outcome(reference, row)))
    for row in about["relaxed"]:
        found.append(("Fewer limits", _freed(kind, name, row), _outcome(reference, row)))
    return found


def changes_in_short(about: Mapping[str, Any]) -> list[str]:
    """The same in a sentence: in which of the cases that were tried the answer is another."""
    if about["verdict"]["recommended"] is None:
        return []
    cases = [(f"after {count(row['rounds'], 'round')}", row) for row in _shorter(about)]
    cases += [(f"if {row['words']}", row) for row in about["scenarios"]]
    cases += [(f"without {LIMITS[row['constraint']]}", row) for row in about["relaxed"]]
    outcomes = [_outcome(about["verdict"]["reference"], row) for _, row in cases]
    turned = [f"{when} ({clean(row['best'])})" for when, row in cases if row["changes"]]
    unclear = outcomes.count("cannot tell")
    rest, said = len(cases) - len(turned) - unclear, []
    if turned:
        said.append(f"the answer would change {listed(turned)}")
    if rest:
        where = f"{rest} of the {rest + unclear} other cases that were tried" if unclear else _cases(rest, "other")
        said.append(f"{'it' if said else 'the answer'} stays in {where}")
    if unclear:
        what = (
            f"in {unclear}" if rest else f"whether {'it' if said else 'the answer'} stays in {_cases(unclear, 'other')}"
        )
        said.append(f"{count(about['seeds'], 'seed')} cannot tell {what}")
    return [f"{text[0].upper()}{text[1:]}." for text in ["; ".join(said)] if text]


def _outcome(reference: str, row: Mapping[str, Any]) -> Outcome:
    """Whether the answer is another; noise may hide one that is better than the reference by more than matters."""
    if row["changes"]:
        return "changes"
    if "freed" in row:  # who could be used besides
        hidden = row["open"]
    else:
        hidden = row["untold"] if row["best"] == reference else reference in row["untold"]
    return "cannot tell" if hidden else "stays"


def _cases(number: int, which: str) -> str:
    return f"the one {which} case that was tried" if number == 1 else f"the {number} {which} cases that were tried"


def _shorter(about: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [row for row in about["horizons"] if row["share"] < 1]


def _turns(kind: Metric, name: str, reference: str, row: Mapping[str, Any], be: str, end: str, seeds: int) -> str:
    """Who is best in another case, against the reference."""
    if row["best"] == reference and row["untold"]:
        have = "would have" if be == "would be" else "has"
        return f"{name} {have} the best mean, but {cannot_tell(kind, row['untold'], seeds)}."
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
    if reference in row["untold"]:
        return f"{clean(row['best'])} {end} {told}, which {count(seeds, 'seed')} cannot tell from chance."
    which = "does not matter here" if reference in row["close"] else "leaves them level"
    return f"{clean(row['best'])} {end} {told}, which {which}: the answer stays."


def _freed(kind: Metric, name: str, row: Mapping[str, Any]) -> str:
    gap = row["difference"]
    could = f"Without {LIMITS[row['constraint']]}, {listed(row['freed'])} could be used"
    who = "it" if len(row["freed"]) == 1 else f"the best of them, {clean(row['best'])},"
    return f"{could}: {who} ends {apart(kind, gap)} {name} {interval(kind, gap)}."
