"""Benchmarks are not run by tests; at least they must import, so that a renamed function is noticed."""

import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.fixture
def importable(monkeypatch):
    """Benchmarks import each other by name; afterwards, nothing does."""
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setattr(sys, "path", list(sys.path))  # `common` adds the sources
    monkeypatch.setattr("fedtide.use_all_cores", lambda: None)  # would hold for the tests that follow
    before = set(sys.modules)
    yield
    for name in (set(sys.modules) - before) & set(NAMES):
        del sys.modules[name]


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_imports(importable, name):
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name=name)
