"""A recommendation in words: what to use, by how much, how sure that is, and who is under-served."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedtide.report.recommendation_changes import changes_in_short
from fedtide.report.recommendation_notes import margin, worth
from fedtide.report.recommendation_phrases import (
    against,
    apart,
    be,
    cannot_tell,
    end,
    fall,
    in_letters,
    interval,
    listed,
    reached,
    row_of,
    told_apart,
    untold,
)
from fedtide.report.words import change, clean, count, percent, spread, value

_SIMPLER = {
    "extra_messages": "it sends fewer extra messages",
    "client_bytes": "it keeps less on a device",
    "server_bytes": "it keeps less on the server",
}
_FEW = 0.05  # of accuracy, or of the objective: an interval that reaches further tells little
_NAMED = 3  # devices, in the answer; the page lists more


def answer(about: Mapping[str, Any]) -> list[str]:
    """The whole answer: sentences."""
    return [*lead(about), *besides(about)]


def lead(about: Mapping[str, Any]) -> list[str]:
    """What to use, and by how much on the record: sentences, the first of which is the answer in a word."""
    said = {"clear": _clear, "level": _level, "disagree": _disagree, "floor": _floor, "none": _none}
    return said[about["verdict"]["confidence"]](about)


def besides(about: Mapping[str, Any]) -> list[str]:
    """What goes with it: generated fleets, who is left behind, when it would change, what it was tried on."""
    on_generated = _generator(about) if about["verdict"]["recommended"] is not None else []
    return [*on_generated, *_served(about), *_never(about), *changes_in_short(about), *_stand_in(about)]


def _clear(about: Mapping[str, Any]) -> list[str]:
    name, kind = about["verdict"]["recommended"], about["kind"]
    said = [f"Use {clean(name)}.", f"On the recorded trace it ends at {reached(about, name)}"]
    others = _ranked(about, "recorded", without=name)
    if others:
        gap = others[0]["recorded"]["difference"]
        next_best = f"the next best, {clean(others[0]['method'])}"
        said[-1] += f", {apart(kind, gap, flip=True)} {next_best} {interval(kind, gap, flip=True)}"
    elif len(about["methods"]) > 1:
        said[-1] += "; no other method is left to compare it with"
    said[-1] += "."
    return said


def _level(about: Mapping[str, Any]) -> list[str]:
    verdict, kind = about["verdict"], about["kind"]
    name = clean(verdict["recommended"])
    others = [method for method in verdict["level"] if method != verdict["recommended"]]
    said = [f"Use {name}."]
    if not others:  # generated fleets tell apart who is level on the record
        here = [method for method in verdict["recorded"]["level"] if method != verdict["recommended"]]
        falls = "it falls" if len(here) == 1 else "they fall"
        said.append(f"On the recorded trace {_alike(about, here)}; on generated fleets {falls} behind.")
    else:
        said.append(f"{_alike(about, others)}, and {name} is {_simplest(about, others)}.")
    said.append(f"On the recorded trace it ends at {reached(about, verdict['recommended'])}")
    if verdict["best"] != verdict["recommended"]:
        gap = row_of(about, verdict["best"])["recorded"]["difference"]
        said[-1] += f"; the highest mean is that of {clean(verdict['best'])}, {change(kind, gap['mean'])}"
        said[-1] += f"{' points' if kind == 'accuracy' else ''} {interval(kind, gap)}"
    said[-1] += "."
    return [*said, *_too_few(about), *_behind(about)]


def _too_few(about: Mapping[str, Any]) -> list[str]:
    """Where noise hides differences of many points on the record."""
    name, far = about["verdict"]["recommended"], margin(about, max(_FEW, about["worth"]))
    gaps = [row_of(about, m)["recorded"]["difference"] for m in about["verdict"]["recorded"]["level"] if m != name]
    if not any(untold(gap, far) for gap in gaps):
        return []
    few = "1 seed is" if about["seeds"] == 1 else f"{about['seeds']} seeds are"
    return [f"{few} too few for a firm answer: run more (--seeds)."]


def _behind(about: Mapping[str, Any]) -> list[str]:
    """Who ends below the recommended method, and who ends below the best alone."""
    kind, said = about["kind"], []
    behind = [row for row in about["methods"] if row["verdict"] == "behind"]
    if behind:
        worst = max(behind, key=lambda r: abs(r["recorded"]["difference"]["mean"]))
        gap = worst["recorded"]["difference"]
        told = f"{apart(kind, gap)} it {interval(kind, gap)}"
        said.append(
            f"{clean(worst['method'])} ends {told}." if len(behind) == 1
            else f"{listed([r['method'] for r in behind])} fall behind, {clean(worst['method'])} most: {told}."
        )  # fmt: skip
    outdone = [row["method"] for row in about["methods"] if row["verdict"] == "behind the best"]
    if outdone:
        best, name = clean(about["verdict"]["best"]), clean(about["verdict"]["recommended"])
        said.append(f"{listed(outdone)} {fall(outdone)} behind {best}, though not clearly behind {name}.")
    return said


def _alike(about: Mapping[str, Any], others: Sequence[str]) -> str:
    """Who may be as good as the recommended method on the record: level, or close, or not told from it."""
    gaps = {method: row_of(about, method)["recorded"]["difference"] for method in others}
    hidden = {method: gap for method, gap in gaps.items() if untold(gap, margin(about))}
    same = [method for method, gap in gaps.items() if method not in hidden and not told_apart(gap)]
    small = [m for m in others if m not in (*same, *hidden) and abs(gaps[m]["mean"]) <= margin(about)]
    rest = [m for m in others if m not in (*same, *hidden, *small)]
    said = []
    if same:
        said.append(f"{listed(same)} {end(same)} level with it")
    if small:
        of = "" if same else " of it"
        said.append(f"{listed(small)} {end(small)} within {worth(about)}{of}, which does not matter here")
    if hidden:
        said.append(cannot_tell(about["kind"], hidden, about["seeds"]))
    if rest:  # the noise of the best, not that of the recommended, hides them
        said.append(f"{listed(rest)} cannot be told from {clean(about['verdict']['best'])}")
    return "; ".join(said)


def _simplest(about: Mapping[str, Any], others: Sequence[str]) -> str:
    """`the simpler of the two`, and why."""
    if len(others) > 1:
        return f"the simplest of the {in_letters(len(others) + 1)} (fewest extra messages, then least memory)"
    mine, other = row_of(about, about["verdict"]["recommended"]), row_of(about, others[0])
    why = next((text for field, text in _SIMPLER.items() if mine[field] < other[field]), None)
    return "the first of the two, which ask for as much" if why is None else f"the simpler of the two ({why})"


def _generator(about: Mapping[str, Any]) -> list[str]:
    """How the recommended method stands on generated fleets."""
    verdict, kind = about["verdict"], about["kind"]
    there, name = verdict["generated"], verdict["recommended"]
    if there is None:
        return ["On fleets generated from the fit no method finished."]
    at = value(kind, row_of(about, name)["generated"]["mean"])
    level = [method for method in there["level"] if method != name]
    behind = [m for m in verdict["recorded"]["level"] if m not in there["level"]]
    lost = f"; {listed(behind)} {fall(behind)} behind there" if behind and len(verdict["level"]) > 1 else ""
    if there["best"] == name and not level:
        others = _ranked(about, "generated", without=name)
        if not others:
            return [f"On fleets generated from the fit it reaches {at}."]
        gap, other = others[0]["generated"]["difference"], clean(others[0]["method"])
        told = f"{apart(kind, gap, flip=True)} {other} {interval(kind, gap, flip=True)}"
        return [f"Fleets generated from the fit agree: it is best there as well, at {at}, {told}."]
    if there["best"] == name:
        gaps = {method: row_of(about, method)["generated"]["difference"] for method in level}
        same = [method for method in level if method not in there["untold"]]
        said = [f"{listed([f'{m} ({against(kind, gaps[m])})' for m in same])} {be(same)} level with it"] if same else []
        hidden = {m: gap for m, gap in gaps.items() if m not in same}
        said += [cannot_tell(kind, hidden, about["seeds"])] if hidden else []
        return [f"On fleets generated from the fit it has the best mean, {at}, and {', and '.join(said)}{lost}."]
    ahead = against(kind, row_of(about, there["best"])["generated"]["difference"])
    told = f"{clean(there['best'])} has the best mean ({ahead})"
    alike = [name, *(method for method in level if method != there["best"])]
    same, hidden = ([m for m in alike if (m in there["untold"]) == open_] for open_ in (False, True))
    said = [f"{listed(same)} {be(same)} level with it"] if same else []
    said += [f"{count(about['seeds'], 'seed')} cannot tell {listed(hidden)} from it"] if hidden else []
    return [f"On fleets generated from the fit {told}, and {', and '.join(said)}{lost}."]


def _disagree(about: Mapping[str, Any]) -> list[str]:
    verdict, kind = about["verdict"], about["kind"]
    here, there = verdict["recorded"], verdict["generated"]
    first, second = here["best"], there["best"]
    gaps = {setting: row_of(about, second)[setting]["difference"] for setting in ("recorded", "generated")}
    said = ["No method can be recommended firmly: the record and fleets generated from the fit disagree."]
    told = f"{apart(kind, gaps['recorded'], flip=True)} {clean(second)} {interval(kind, gaps['recorded'], flip=True)}"
    said.append(f"On the recorded trace {clean(first)} ends best, at {reached(about, first)}, {told}.")
    told = f"{apart(kind, gaps['generated'])} {clean(first)} {interval(kind, gaps['generated'])}"
    said.append(f"On generated fleets {clean(second)} does, {told}.")
    said.append("The fit leaves out something that matters here; see what the fleet's report says about it.")
    return said


def _floor(about: Mapping[str, Any]) -> list[str]:
    near = row_of(about, about["verdict"]["best"])
    floor = percent(about["constraints"]["floor"])
    return [
        f"No method that the constraints allow reaches the floor of {floor} for the tenth of the devices that are "
        f"served worst.",
        f"{clean(near['method'])} comes nearest: {_tenth(near['recorded'])} on the recorded trace, and "
        f"{reached(about, near['method'])} over all devices.",
    ]


def _none(about: Mapping[str, Any]) -> list[str]:
    refused = [row for row in about["methods"] if row["refused"]]
    if len(refused) == len(about["methods"]):
        return ["No method can be recommended: the constraints refuse every candidate."]
    return ["No method can be recommended: every one that the constraints allow diverged under some seed."]


def _served(about: Mapping[str, Any]) -> list[str]:
    """How the worst-served tenth fares, against the floor and the other methods: what noise could make is not said."""
    name = about["verdict"]["recommended"]
    if name is None or about["kind"] != "accuracy":
        return []
    mine, floor = row_of(about, name)["recorded"], about["constraints"]["floor"]
    if mine["worst_decile"] is None:
        return []
    said = f"The tenth of the devices that it serves worst reaches {_tenth(mine)}"
    if floor is not None and mine["worst_low"] is not None and mine["worst_low"] < floor:
        said += f", above the floor of {percent(floor)} by less than the noise"
    rows = [r for r in about["methods"] if not r["diverged"] and r["recorded"]["worst_difference"] is not None]
    kinder = [r for r in rows if (r["recorded"]["worst_difference"]["low"] or 0.0) > 0]
    if kinder:
        kindest = max(kinder, key=lambda r: r["recorded"]["worst_difference"]["mean"])
        gap = kindest["recorded"]["worst_difference"]
        refused = ", which the constraints refuse," if kindest["refused"] else ""
        more = f"{change('accuracy', gap['mean'])} points {interval('accuracy', gap)}"
        said += f"; {clean(kindest['method'])}{refused} does most for them, {more}"
    elif len(rows) > 1:
        said += "; no other candidate clearly does more for them"
    if about["served_worst"] and not about["problem"]["stand_in"]:
        said += f". By name: {listed([row['device'] for row in about['served_worst']], _NAMED)}"
    return [said + "."]


def _tenth(found: Mapping[str, Any]) -> str:
    told = percent(found["worst_decile"])
    if found["worst_low"] is None:
        return told
    return f"{told} (95% interval {spread('accuracy', found['worst_low'], found['worst_high'])})"


def _never(about: Mapping[str, Any]) -> list[str]:
    never = about["fleet"]["never"]
    if not never:
        return []
    were = "device of the record was" if len(never) == 1 else "devices of the record were"
    return [f"{len(never):,} {were} never there: no method can learn from {'it' if len(never) == 1 else 'them'}."]


def _stand_in(about: Mapping[str, Any]) -> list[str]:
    if not about["problem"]["stand_in"]:
        return []
    return ["The task is a stand-in, digits dealt to the devices at random: your own may have another answer."]


def _ranked(about: Mapping[str, Any], setting: str, without: str) -> list[Mapping[str, Any]]:
    """The others that could have been recommended, best first."""
    sign = -1 if about["kind"] == "accuracy" else 1
    could = ("level", "untold", "behind", "behind the best", "behind there", "not firm")
    rows = [r for r in about["methods"] if r["verdict"] in could and r["method"] != without]
    return sorted((r for r in rows if r[setting]["mean"] is not None), key=lambda r: sign * r[setting]["mean"])
