"""Claims, verdicts and how a study was run, in words."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from fedtide.report import words
from fedtide.report.reproduction_numbers import SHARES, Facts

MARKS = {"holds": "✓", "partly": "◐", "undecided": "?", "does not hold": "✗", "not tested": "○"}
"""A symbol for each verdict, in the order in which they are counted."""

_FEW = 4  # comparisons that are told one by one


def verdict(row: Facts) -> str:
    """`✓ holds`."""
    return f"{MARKS[row['verdict']]} {row['verdict']}"


def ours(row: Facts) -> str:
    """What was found, with its interval: one line, or the range where there are many comparisons."""
    found = row["comparisons"]
    if not found:
        return words.NOTHING
    if len(found) <= _FEW:
        return "; ".join(filter(None, (_who(row, c) + comparison(row, c) for c in found)))
    known = [c for c in found if c["mean"] is not None]
    lowest, highest = (pick(known, key=lambda c: c["mean"]) for pick in (min, max))
    ends = [f"{_level(row, c['mean'])} ({_where(row, c)})" for c in (lowest, highest)]
    return f"from {ends[0]} to {ends[1]}{_unit(row)}, {len(found)} comparisons"


def comparison(row: Facts, c: Facts) -> str:
    """`+1.56 points (0.90 to 2.22)`."""
    if c["mean"] is None or c["mean"] != c["mean"]:
        return "no finite value"
    said = _level(row, c["mean"]) + _unit(row)
    if c["low"] is None:
        return f"{said} (one run: no interval)"
    return f"{said} ({_level(row, c['low'])} to {_level(row, c['high'])})"


def because(row: Facts) -> str:
    """What the verdict rests on."""
    pairs = f"{words.count(row['replicas'], 'paired run')}." if row["replicas"] else ""
    return " ".join(filter(None, (row["why"], pairs)))


def counts(rows: Iterable[Facts]) -> dict[str, int]:
    """How many claims have each verdict; those that occur."""
    found = Counter(row["verdict"] for row in rows)
    return {name: found[name] for name in MARKS if found[name]}


def answer(rows: Sequence[Facts]) -> str:
    """How many of the claims hold."""
    if not rows:
        return "The study makes no claims: it is a comparison of our own."
    said = {
        "holds": ("holds", "hold"),
        "partly": ("holds in part", "hold in part"),
        "undecided": ("is undecided", "are undecided"),
        "does not hold": ("does not hold", "do not hold"),
        "not tested": ("was not tested", "were not tested"),
    }
    found = counts(rows)
    told = [f"{n} {said[name][n > 1]}" for name, n in found.items()]
    listed = told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}"
    if len(rows) == 1:
        return f"The claim {said[rows[0]['verdict']][0]}."
    return f"Of {len(rows)} claims, {listed}."


def duration(seconds: float) -> str:
    """`41 s`, `12 min`, `2.5 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 1 else "1 s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def how(study: Facts, results: Facts) -> list[tuple[str, str]]:
    """How a study was run: facts by name."""
    cases = results["cases"]
    first = cases[0]
    problem = first["problem"]
    data = list(dict.fromkeys(str(c["problem"]["data"] or c["problem"]["name"]) for c in cases))
    clients = _range([c["problem"]["clients"] for c in cases])
    samples = _range([c["problem"]["samples"] for c in cases])
    size = f"{clients} clients, {samples} samples, {_range([c['problem']['parameters'] for c in cases])} parameters"
    found = [
        ("Scale", results["scale"] + (f": {results['note']}" if results.get("note") else "")),
        ("Data", f"{', '.join(data)}; {size}" if problem else ", ".join(data)),
        ("Runs", f"{words.count(results['draws'], 'data draw')}, {words.count(first['seeds'], 'seed')} each"),
        ("Rounds", _range([c["rounds"][-1] for c in cases])),
        ("Local work", ", ".join(f"{k} {words.setting(v)}" for k, v in (first.get("local") or {}).items()) or "as set"),
        ("Tuning", tuning(results)),
        ("Hardware", results["hardware"]),
        ("Time", duration(results["seconds"])),
    ]
    return [(name, text) for name, text in found if text]


def tuning(results: Facts) -> str:
    """The budget that every tuned method had."""
    trials = {m["tuned"]["trials"] for case in results["cases"] for m in case["methods"] if m.get("tuned")}
    if not trials:
        return "none: every method runs as written"
    each = _range(list(trials))
    return f"{each} settings for every method, chosen on validation data of a data draw of its own"


def chosen(results: Facts) -> list[tuple[str, str, str, list[str]]]:
    """(case, method, what tuning chose, the arguments at the edge of what was tried)."""
    found = []
    for case in results["cases"]:
        for method in case["methods"]:
            if method.get("tuned"):
                settings = method["tuned"]["settings"]
                told = ", ".join(f"{name} = {words.setting(value)}" for name, value in settings.items())
                found.append((case["label"], method["label"], told, method["tuned"]["edges"]))
    return found


def warnings(results: Facts) -> list[str]:
    """What a reader should know before trusting the numbers."""
    said = []
    edges: dict[tuple[str, str], list[str]] = {}
    for case, label, _, names in chosen(results):
        for name in names:
            edges.setdefault((label, name), []).append(case)
    for (label, name), cases in edges.items():
        where = f" ({', '.join(map(words.clean, cases))})" if any(cases) else ""
        said.append(f"{words.clean(label)}: the chosen {name} is at the edge of its grid{where}; more might be better.")
    for case in results["cases"]:
        for method in case["methods"]:
            lost = sum(method["diverged"])
            if lost:
                runs = f"{lost} of {words.count(len(method['diverged']), 'run')} diverged"
                where = f", {words.clean(case['label'])}" if case["label"] else ""
                said.append(f"{words.clean(method['label'])}{where}: {runs}; its accuracy counts as 0 there.")
    if any(len(case["draw"]) == 1 for case in results["cases"]):
        said.append("There is a single run: no claim can be decided.")
    return said


def _who(row: Facts, c: Facts) -> str:
    where = _where(row, c)
    return f"{where}: " if where and len(row["comparisons"]) > 1 else ""


def _where(row: Facts, c: Facts) -> str:
    """What tells a comparison from the others of its claim."""
    every = row["comparisons"]
    parts = [words.clean(c["against"])] if len({o["against"] for o in every}) > 1 else []
    if len({o["case"] for o in every}) > 1:
        parts.insert(0, words.clean(c["case"]))
    return ", ".join(filter(None, parts))


def _is_level(row: Facts) -> bool:
    """Whether it is about the method's own level, not about a difference."""
    return not row.get("against") and not row.get("against_group") and not row.get("trend")


def _in_points(row: Facts) -> bool:
    return row["measure"] in (*SHARES, "classes", "included")


def _level(row: Facts, number: float) -> str:
    if row["measure"] == "speedup" and not row.get("trend"):
        return f"×{number:.2f}"
    if _is_level(row):
        own = number + row["value"]
        return (f"{own:.2f}" if _in_points(row) else f"{own:.3g}").replace("-", "−")
    # The slope of an axis of many units is small.
    text = f"{number:+.2f}" if _in_points(row) and not row.get("trend") else f"{number:+.3g}"
    return (text.lstrip("+-") if float(text) == 0 else text).replace("-", "−")


def _unit(row: Facts) -> str:
    if row["measure"] == "speedup":
        unit = ""
    elif _in_points(row):
        unit = "%" if _is_level(row) and row["measure"] != "spread" else " points"
    else:
        unit = ""
    return unit + (" per unit" if row.get("trend") else "")


def _range(numbers: Sequence[Any]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
