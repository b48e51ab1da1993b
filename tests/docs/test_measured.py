"""Sentences about measurements agree with the stored numbers."""

import json
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2] / "docs" / "data"


@pytest.mark.parametrize("machine", ["cpu", "h200"])
def test_checking_decisions_costs_under_two_percent(machine):
    rows = json.loads((DATA / f"checks-{machine}.json").read_text())["checks"]
    assert [(row["clients"], row["replicas"]) for row in rows] == [(100, 1), (100, 10), (100_000, 1)]
    assert all(row["cost %"] < 2 for row in rows)
