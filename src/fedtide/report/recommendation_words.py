"""A recommendation in words: the answer, who is under-served, when the answer would change, what is not known."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedtide.report.recommendation_notes import margin, worth
from fedtide.report.statistics import Metric
from fedtide.report.words import change, clean, count, percent, size, value

_MOST_NAMED = 8

LIMITS = {
    "client_memory": "the limit on a device's memory",
    "server_memory": "the limit on the server's memory",
    "extra_messages": "the limit on extra messages",
    "floor": "the floor for the worst-served",
}


def answer(about: Mapping[str, Any]) -> list[str]:
    """What to use, by how much, how sure that is, and who is left behind: sentences."""
    verdict = about["verdict"]
    said = {"clear": _clear, "level": _level, "disagree": _disagree, "floor": _floor, "none": _none}
    return [*said[verdict["confidence"]](about), *_served(about), *_never(about)]


def _clear(about: Mapping[str, Any]) -> list[str]:
    name = clean(about["verdict"]["recommended"])
    said = [f"Use {name}.", f"On the recorded trace it ends at {_reached(about, about['verdict']['recommended'])}"]
    others = _ranked(about, "recorded", without=about["verdict"]["recommended"])
    if others:
        gap = others[0]["recorded"]["difference"]
        said[-1] += f", {_apart(about['kind'], gap, flip=True)} the next best, {clean(others[0]['method'])}"
        said[-1] += f" {_interval(about['kind'], gap, flip=True)}"
    elif len(about["methods"]) > 1:
        said[-1] += "; no other method is left to compare it with"
    said[-1] += "."
    return [*said, *_generator(about)]


def _level(about: Mapping[str, Any]) -> list[str]:
    verdict, kind = about["verdict"], about["kind"]
    name = clean(verdict["recommended"])
    others = [method for method in verdict["level"] if method != verdict["recommended"]]
    if not others:  # generated fleets tell apart who is level on the record
        here = [method for method in verdict["recorded"]["level"] if method != verdict["recommended"]]
        falls = "it falls" if len(here) == 1 else "they fall"
        there = f"on generated fleets {falls} behind"
        said = [f"Use {name}. On the recorded trace {listed(here)} {_end(here)} level with it; {there}."]
    else:
        most = "the simpler of the two" if len(others) == 1 else f"the simplest of the {_number(len(others) + 1)}"
        said = [f"Use {name}. {_alike(about, others)}, and it is {most}."]
    said.append(f"On the recorded trace it ends at {_reached(about, verdict['recommended'])}")
    if verdict["best"] != verdict["recommended"]:
        gap = _row(about, verdict["best"])["recorded"]["difference"]
        said[-1] += f"; the highest mean is that of {clean(verdict['best'])}, {change(kind, gap['mean'])}"
        said[-1] += f"{' points' if kind == 'accuracy' else ''} {_interval(kind, gap)}"
    said[-1] += "."
    behind = [row for row in about["methods"] if row["verdict"] == "behind"]
    if behind:
        worst = behind[-1] if len(behind) == 1 else max(behind, key=lambda r: abs(r["recorded"]["difference"]["mean"]))
        gap = worst["recorded"]["difference"]
        told = f"{_apart(kind, gap)} it {_interval(kind, gap)}"
        said.append(
            f"{clean(worst['method'])} ends {told}." if len(behind) == 1
            else f"{listed([r['method'] for r in behind])} fall behind, {clean(worst['method'])} most: {told}."
        )  # fmt: skip
    return [*said, *_generator(about)]


def _alike(about: Mapping[str, Any], others: Sequence[str]) -> str:
    """Who ends level with the recommended method: not told from it, or told and close; on the record."""
    gaps = {method: _row(about, method)["recorded"]["difference"] for method in others}
    same = [method for method, gap in gaps.items() if not _told(gap)]
    small = [m for m in others if m not in same and abs(gaps[m]["mean"]) <= margin(about)]
    rest = [m for m in others if m not in same and m not in small]
    said = []
    if same:
        said.append(f"{listed(same)} {_end(same)} level with it, as far as {count(about['seeds'], 'seed')} can tell")
    if small:
        of = "" if same else " of it"
        said.append(f"{listed(small)} {_end(small)} within {worth(about)}{of}, which does not matter here")
    if rest:  # the noise of the best, not that of the recommended, hides them
        said.append(f"{listed(rest)} cannot be told from {clean(about['verdict']['best'])}")
    return "; ".join(said)


def _generator(about: Mapping[str, Any]) -> list[str]:
    """How the recommended method stands on generated fleets."""
    verdict, kind = about["verdict"], about["kind"]
    there, name = verdict["generated"], verdict["recommended"]
    if there is None:
        return ["On fleets generated from the fit no method finished."]
    reached = value(kind, _row(about, name)["generated"]["mean"])
    level = [method for method in there["level"] if method != name]
    behind = [m for m in verdict["recorded"]["level"] if m not in there["level"]]
    lost = ""
    if behind and len(verdict["level"]) > 1:
        lost = f"; {listed(behind)} {'falls' if len(behind) == 1 else 'fall'} behind there"
    if there["best"] == name and not level:
        others = _ranked(about, "generated", without=name)
        if not others:
            return [f"On fleets generated from the fit it reaches {reached}."]
        gap, other = others[0]["generated"]["difference"], clean(others[0]["method"])
        told = f"{_apart(kind, gap, flip=True)} {other} {_interval(kind, gap, flip=True)}"
        return [f"Fleets generated from the fit agree: it is best there as well, at {reached}, {told}."]
    if there["best"] == name:
        told = listed([f"{method} ({_against(kind, _row(about, method))})" for method in level])
        best = f"it has the best mean, {reached}"
        return [f"On fleets generated from the fit {best}, and {told} {_be(level)} level with it{lost}."]
    told = f"{clean(there['best'])} has the best mean ({_against(kind, _row(about, there['best']))})"
    alike = [name, *(method for method in level if method != there["best"])]
    return [f"On fleets generated from the fit {told}, and {listed(alike)} {_be(alike)} level with it{lost}."]


def _against(kind: Metric, row: Mapping[str, Any]) -> str:
    """A method against the recommended one on generated fleets."""
    gap = row["generated"]["difference"]
    told = f"{change(kind, gap['mean'])}{' points' if kind == 'accuracy' else ''}"
    if gap["low"] is None:
        return told
    return f"{told}; 95% interval {change(kind, gap['low'])} to {change(kind, gap['high'])}"


def _disagree(about: Mapping[str, Any]) -> list[str]:
    verdict, kind = about["verdict"], about["kind"]
    here, there = verdict["recorded"], verdict["generated"]
    first, second = here["best"], there["best"]
    gaps = {setting: _row(about, second)[setting]["difference"] for setting in ("recorded", "generated")}
    said = ["No method can be recommended firmly: the record and fleets generated from the fit disagree."]
    told = f"{_apart(kind, gaps['recorded'], flip=True)} {clean(second)} {_interval(kind, gaps['recorded'], flip=True)}"
    said.append(f"On the recorded trace {clean(first)} ends best, at {_reached(about, first)}, {told}.")
    told = f"{_apart(kind, gaps['generated'])} {clean(first)} {_interval(kind, gaps['generated'])}"
    said.append(f"On generated fleets {clean(second)} does, {told}.")
    said.append("The fit leaves out something that matters here; see what the fleet's report says about it.")
    return said


def _floor(about: Mapping[str, Any]) -> list[str]:
    verdict = about["verdict"]
    near = _row(about, verdict["best"])
    floor = percent(about["constraints"]["floor"])
    tenth = percent(near["recorded"]["worst_decile"])
    return [
        f"No method that the constraints allow reaches the floor of {floor} for the tenth of the devices that are "
        f"served worst.",
        f"{clean(near['method'])} comes nearest: {tenth} on the recorded trace, and {_reached(about, near['method'])} "
        "over all devices.",
    ]


def _none(about: Mapping[str, Any]) -> list[str]:
    refused = [row for row in about["methods"] if row["refused"]]
    if len(refused) == len(about["methods"]):
        return ["No method can be recommended: the constraints refuse every candidate."]
    return ["No method can be recommended: every one that the constraints allow diverged under some seed."]


def _served(about: Mapping[str, Any]) -> list[str]:
    name = about["verdict"]["recommended"]
    if name is None or about["kind"] != "accuracy":
        return []
    mine = _row(about, name)["recorded"]["worst_decile"]
    if mine is None:
        return []
    rows = [r for r in about["methods"] if not r["diverged"] and r["recorded"]["worst_decile"] is not None]
    kindest = max(rows, key=lambda r: r["recorded"]["worst_decile"])
    said = f"The tenth of the devices that it serves worst reaches {percent(mine)}"
    if kindest["recorded"]["worst_decile"] > mine + 5e-4:
        refused = ", which the constraints refuse," if kindest["refused"] else ""
        said += (
            f"; {clean(kindest['method'])}{refused} does most for them, {percent(kindest['recorded']['worst_decile'])}"
        )
    return [said + "."]


def _never(about: Mapping[str, Any]) -> list[str]:
    never = about["fleet"]["never"]
    if not never:
        return []
    were = "device of the record was" if len(never) == 1 else "devices of the record were"
    return [f"{len(never):,} {were} never there: no method can learn from {'it' if len(never) == 1 else 'them'}."]


def changes(about: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    """When the answer would change: (what, a sentence, whether it does)."""
    reference = about["verdict"]["reference"]
    if reference is None:
        return []
    kind, name, found = about["kind"], clean(reference), []
    for row in about["horizons"]:
        if row["share"] < 1:
            when = f"After {count(row['rounds'], 'round')}, {_share(row['share'])} of the run,"
            found.append(
                ("A shorter run", f"{when} {_turns(kind, name, reference, row, 'is', 'ends')}", row["changes"])
            )
    for row in about["scenarios"]:
        told = _turns(kind, name, reference, row, "would be", "would end")
        found.append(("Another fleet", f"If {row['words']}, {told}", row["changes"]))
    for row in about["relaxed"]:
        found.append(("Fewer limits", _freed(kind, name, row), row["changes"]))
    return found


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
    told = f"{_apart(kind, gap)} {name} {_interval(kind, gap)}"
    if row["changes"]:
        return f"{clean(row['best'])} {end} {told}: the answer would change."
    which = "does not matter here" if reference in row["close"] else "leaves them level"
    return f"{clean(row['best'])} {end} {told}, which {which}: the answer stays."


def _freed(kind: Metric, name: str, row: Mapping[str, Any]) -> str:
    gap = row["difference"]
    could = f"Without {LIMITS[row['constraint']]}, {listed(row['freed'])} could be used"
    who = "it" if len(row["freed"]) == 1 else f"the best of them, {clean(row['best'])},"
    return f"{could}: {who} ends {_apart(kind, gap)} {name} {_interval(kind, gap)}."


def _told(gap: Mapping[str, float | None]) -> bool:
    """Whether an interval leaves 0 out."""
    return gap["low"] is not None and gap["high"] is not None and not gap["low"] <= 0 <= gap["high"]


def _end(names: Sequence[str]) -> str:
    return "ends" if len(names) == 1 else "end"


def _be(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def listed(names: Sequence[str], most: int = _MOST_NAMED) -> str:
    """`A, B and C`."""
    names = [clean(name) for name in names]
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most:,} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _reached(about: Mapping[str, Any], method: str) -> str:
    kind, row = about["kind"], _row(about, method)
    what = f"{value(kind, row['recorded']['mean'])} test accuracy"
    if kind != "accuracy":
        what = f"an objective of {value(kind, row['recorded']['mean'])}"
    return f"{what} after {count(about['rounds'], 'round')} (mean of {count(about['seeds'], 'seed')})"


def _row(about: Mapping[str, Any], method: str) -> Mapping[str, Any]:
    return next(row for row in about["methods"] if row["method"] == method)


def _ranked(about: Mapping[str, Any], setting: str, without: str) -> list[Mapping[str, Any]]:
    """The others that could have been recommended, best first."""
    sign = -1 if about["kind"] == "accuracy" else 1
    rows = [
        r
        for r in about["methods"]
        if r["verdict"] in ("level", "behind", "behind there", "not firm") and r["method"] != without
    ]
    return sorted((r for r in rows if r[setting]["mean"] is not None), key=lambda r: sign * r[setting]["mean"])


def _apart(kind: Metric, gap: Mapping[str, float], flip: bool = False) -> str:
    mean = -gap["mean"] if flip else gap["mean"]
    return f"{size(kind, mean)} {'above' if mean > 0 else 'below' if mean < 0 else 'from'}"


def _interval(kind: Metric, gap: Mapping[str, float | None], flip: bool = False) -> str:
    low, high = gap["low"], gap["high"]
    if low is None or high is None:
        return "(one seed: no interval)"
    if flip:
        low, high = -high, -low
    return f"(95% interval {change(kind, low)} to {change(kind, high)})"


def _share(share: float) -> str:
    return {0.25: "a quarter", 0.5: "half"}.get(share, percent(share, 0))


def _number(n: int) -> str:
    return {3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine"}.get(n, str(n))
