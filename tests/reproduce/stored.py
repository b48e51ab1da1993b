"""Results for tests, built by hand."""

from typing import Any

from fedtide.reproduce.results import CaseResult, MethodResult, ProblemSize, Results

PROBLEM = ProblemSize(name="digits", data=None, clients=8, samples=320, parameters=650)


def a_method(label: str, final: list[float | None], **more: Any) -> MethodResult:
    facts = {
        "label": label,
        "written": {"name": label.lower()},
        "tuned": None,
        "diverged": [value is None for value in final],
        "final": final,
        "objective": [1.0] * len(final),
    }
    return MethodResult(**facts | more)


def a_case(*methods: MethodResult, **more: Any) -> CaseResult:
    runs = len(methods[0].diverged)
    facts = {
        "label": "", "value": None, "problem": PROBLEM, "availability": {}, "local": {"steps": 5}, "seeds": 1,
        "draw": list(range(runs)), "rounds": [10, 20, 30], "methods": list(methods), "seconds": 1.0,
    }  # fmt: skip
    return CaseResult(**facts | more)


def some_results(*cases: CaseResult, **more: Any) -> Results:
    facts = {
        "name": "x", "scale": "reduced", "note": "fewer clients", "draws": 3, "cases": list(cases), "seconds": 90.0,
        "hardware": "1 × cpu", "versions": {"fedtide": "0"}, "command": "fedtide reproduce x",
    }  # fmt: skip
    return Results(**facts | more)
