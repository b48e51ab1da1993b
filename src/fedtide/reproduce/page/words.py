"""Texts about verdicts and about how a study was run."""

from collections import Counter
from collections.abc import Iterable, Sequence

from fedtide import text as words
from fedtide.reproduce.claims import Comparison, Judged, Verdict
from fedtide.reproduce.results import MEASURES, Results
from fedtide.reproduce.study import Claim

MARKS: dict[Verdict, str] = {
    "holds": "✓",
    "smaller than published": "◔",
    "partly": "◐",
    "undecided": "?",
    "does not hold": "✗",
    "not tested": "○",
}
"""A symbol for each verdict, in the order of tables."""

_COUNTED: dict[Verdict, tuple[str, str]] = {
    "holds": ("holds", "hold"),
    "smaller than published": ("holds but is smaller than published", "hold but are smaller than published"),
    "partly": ("holds in part", "hold in part"),
    "undecided": ("is undecided", "are undecided"),
    "does not hold": ("does not hold", "do not hold"),
    "not tested": ("was not tested", "were not tested"),
}
_FEW = 4  # up to so many comparisons are listed one by one


def verdict(judged: Judged) -> str:
    """`✓ holds`."""
    return f"{MARKS[judged.verdict]} {judged.verdict}"


def ours(judged: Judged) -> list[str]:
    """The result of each comparison with its interval, or their range if there are many."""
    claim, every = judged.claim, judged.comparisons
    known = [(c.mean, _where(c, every)) for c in every if c.mean is not None]
    if len(every) <= _FEW or not known:
        return [_where(c, every, ": ") + comparison(claim, c) for c in every] or [words.NOTHING]
    ends = (pick(known, key=lambda pair: pair[0]) for pick in (min, max))
    lowest, highest = (f"{_level(claim, mean)} ({where})" for mean, where in ends)
    return [f"from {lowest} to {highest}{_unit(claim)}, {len(every)} comparisons"]


def comparison(claim: Claim, c: Comparison) -> str:
    """`+1.56 points (0.90 to 2.22)`."""
    if c.mean is None:
        return "no finite value"
    text = _level(claim, c.mean) + _unit(claim)
    if c.low is None or c.high is None:
        return f"{text} (single run, no interval)"
    return f"{text} ({_level(claim, c.low)} to {_level(claim, c.high)})"


def because(judged: Judged) -> str:
    """The reasons for a verdict, and on how many replicas it is based."""
    replicas = f"n = {judged.replicas}." if judged.replicas else ""
    return " ".join(filter(None, (judged.why, replicas)))


def counts(claims: Iterable[Judged]) -> dict[Verdict, int]:
    """The number of claims by verdict, for the verdicts that occur."""
    numbers = Counter(judged.verdict for judged in claims)
    return {name: numbers[name] for name in MARKS if numbers[name]}


def answer(claims: Sequence[Judged]) -> str:
    """The number of claims by verdict, as a sentence; one more for claims of our own."""
    ours = [one for one in claims if one.claim.source == "ours"]
    theirs = [one for one in claims if one.claim.source != "ours"]
    sentences = _answer(theirs, "claim", "claims"), _answer(ours, "claim of our own", "claims of our own")
    return " ".join(filter(None, sentences)) or "The study tests no claims."


def _answer(claims: Sequence[Judged], one: str, many: str) -> str:
    if len(claims) == 1:
        return f"The {one} {_COUNTED[claims[0].verdict][0]}."
    if not claims:
        return ""
    counted = words.listed([f"{n} {_COUNTED[v][n > 1]}" for v, n in counts(claims).items()])
    return f"Of {len(claims)} {many}, {counted}."


def how(results: Results) -> dict[str, str]:
    """How a study was run, by heading."""
    cases, first = results.cases, results.cases[0]
    data = ", ".join(dict.fromkeys(case.problem.data or case.problem.name for case in cases))
    clients = _range(case.problem.clients for case in cases)
    samples = _range(case.problem.samples for case in cases)
    parameters = _range(case.problem.parameters for case in cases)
    return {
        "Scale": results.scale + (f": {results.note}" if results.note else ""),
        "Data": f"{data}; {clients} clients, {samples} samples, {parameters} parameters",
        "Runs": f"{words.count(results.draws, 'data draw')}, {words.count(first.seeds, 'seed')} each",
        "Rounds": _range(case.rounds[-1] for case in cases),
        "Local work": ", ".join(f"{k} {words.setting(v)}" for k, v in first.local.items()) or "as configured",
        "Tuning": _tuning(results),
        "Hardware": results.hardware,
        "Time": words.rounded_duration(results.seconds),
    }


def _tuning(results: Results) -> str:
    """The tuning budget of every tuned method."""
    trials = {m.tuned.trials for case in results.cases for m in case.methods if m.tuned}
    if not trials:
        return "none; every method runs as configured"
    return f"{_range(trials)} settings per method, selected on validation data of draws without comparisons"


def chosen(results: Results) -> tuple[list[str], list[list[str]]]:
    """The chosen settings as a table: (headings, rows)."""
    several = len(results.cases) > 1
    rows = [
        [
            *([words.clean(case.label)] if several else []),
            words.clean(method.label),
            ", ".join(f"{name} = {words.setting(value)}" for name, value in method.tuned.settings.items()),
            ", ".join(method.tuned.edges) or "–",
        ]
        for case in results.cases
        for method in case.methods
        if method.tuned
    ]
    return [*(["Case"] if several else []), "Method", "Chosen settings", "At the edge of the grid"], rows


def warnings(results: Results) -> list[str]:
    """Limitations of the results that a reader should know."""
    edges: dict[tuple[str, str], list[str]] = {}
    diverged = []
    for case in results.cases:
        label = words.clean(case.label)
        for method in case.methods:
            name = words.clean(method.label)
            for argument in method.tuned.edges if method.tuned else ():
                edges.setdefault((name, argument), []).append(label)
            if lost := sum(method.diverged):
                runs = f"{lost} of {words.count(len(method.diverged), 'run')} diverged"
                where = f", {label}" if label else ""
                diverged.append(f"{name}{where}: {runs}; diverged runs count as 0 % accuracy.")
    texts = []
    for (name, argument), cases in edges.items():
        where = f" ({'; '.join(cases)})" if any(cases) else ""
        texts.append(
            f"{name}: the chosen {argument} is at the edge of the grid{where}; values beyond it might be better."
        )
    if any(len(case.draw) == 1 for case in results.cases):
        diverged.append("With a single run no claim can be decided.")
    return texts + diverged


def _where(c: Comparison, every: Sequence[Comparison], end: str = "") -> str:
    """The case and the method by which a comparison differs from the others of its claim."""
    parts = [c.case] if len({o.case for o in every}) > 1 else []
    parts += [c.against] if len({o.against for o in every}) > 1 else []
    text = ", ".join(filter(None, map(words.clean, parts)))
    return text + end if text else ""


def _is_level(claim: Claim) -> bool:
    """Whether the claim is about a level, not about a difference between methods."""
    return not (claim.against or claim.against_group or claim.trend)


def _level(claim: Claim, number: float) -> str:
    points = MEASURES[claim.measure].unit == "points"
    if claim.measure == "speedup" and not claim.trend:
        return words.minus(f"×{number:.2f}")
    if _is_level(claim):
        own = number + claim.value
        return words.number(own, ".2f" if points else ".3g")
    # Slopes may be small, so they have significant digits instead of decimals.
    text = f"{number:+.2f}" if points and not claim.trend else f"{number:+.3g}"
    return words.minus(text.lstrip("+-") if float(text) == 0 else text)


def _unit(claim: Claim) -> str:
    percent = _is_level(claim) and claim.measure != "spread"
    unit = ("%" if percent else " points") if MEASURES[claim.measure].unit == "points" else ""
    return unit + (" per unit" if claim.trend else "")


def _range(numbers: Iterable[int]) -> str:
    every = sorted(numbers)
    return f"{every[0]:,}" if every[0] == every[-1] else f"{every[0]:,} to {every[-1]:,}"
