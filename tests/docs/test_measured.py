"""Sentences about measurements agree with the stored numbers."""

import json
from pathlib import Path

import pytest

from fedtide import availability, methods

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "docs" / "data"


@pytest.mark.parametrize("machine", ["cpu", "h200"])
def test_checking_decisions_costs_under_two_percent(machine):
    rows = json.loads((DATA / f"checks-{machine}.json").read_text())["checks"]
    assert [(row["clients"], row["replicas"]) for row in rows] == [(100, 1), (100, 10), (100_000, 1)]
    assert all(row["cost %"] < 2 for row in rows)


def rounds(machine: str, replicas: int) -> dict[str, float]:
    rows = json.loads((DATA / f"benchmarks-{machine}.json").read_text())["rounds"]
    (row,) = (row for row in rows if row["program"] == f"fedtide, {replicas} replicas")
    return row


def test_what_the_readme_counts_and_measures(generator):
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    cpu, gpu, many = rounds("cpu", 1), rounds("h200", 1), rounds("h200", 100)
    on_cpu, on_gpu, per_seed = cpu["ms per round"], gpu["ms per round"], 1000 * many["ms per round"]
    assert f"takes {on_cpu:.1f} ms on two CPU cores, {cpu['ratio']:.0f} times faster than a PyTorch" in readme
    assert f"and {on_gpu:.2f} ms on an H200 GPU, or {per_seed:.0f} µs per seed" in readme
    assert f"[{len(methods.CATALOGUE)} methods]" in readme
    assert f"[{len(availability.CATALOGUE)} availability processes]" in readme
    reproduce = generator.reproduce
    claims = [one for name in reproduce.study.names() for one in reproduce.judged(name) if one.claim.source != "ours"]
    holds, fails = (sum(one.verdict == verdict for one in claims) for verdict in ("holds", "does not hold"))
    assert f"{holds} of {len(claims)} hold, {fails} do not" in readme
