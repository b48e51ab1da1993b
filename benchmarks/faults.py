"""Faults of a real federation: what the server saw, rounds lost, seconds to recover, updates lost.

python benchmarks/faults.py --json out.json

Runs tests/adapters/faults: real processes on this machine, three clients, some ten minutes on idle cores. A fault whose
test fails is not in the table. The updates lost are those that the ledger says were counted and the model lacks.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from common import write_json

ROOT = Path(__file__).resolve().parent.parent


def measured(only: str) -> tuple[list[dict[str, object]], bool]:
    """(a row for each fault, whether all tests passed)."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "faults.jsonl"
        found.touch()
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "FEDTIDE_FAULTS": str(found)}
        tests = [sys.executable, "-m", "pytest", "-n", "0", "-m", "slow or not slow", "tests/adapters/faults"]
        tests += ["-k", only] if only else []
        done = subprocess.run(tests, cwd=ROOT, env=environment, check=False)
        return [json.loads(line) for line in found.read_text().splitlines()], done.returncode == 0


def table(rows: list[dict[str, object]]) -> str:
    """The rows in Markdown."""
    lines = ["| fault | what the server saw | rounds lost | seconds to recover | acknowledged updates lost |"]
    lines.append("|---|---|---|---|---|")
    for row in rows:
        seconds = "–" if row["seconds"] is None else f"{row['seconds']:.0f}"
        lines.append(f"| {row['fault']} | {row['saw']} | {row['rounds_lost']} | {seconds} | {row['updates_lost']} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="What faults of a real federation cost.")
    parser.add_argument("--json", help="file to write")
    parser.add_argument("--only", default="", help="faults whose test has these words in its name")
    arguments = parser.parse_args()
    rows, passed = measured(arguments.only)
    print(table(rows))
    loads = [float(str(row["load"])) for row in rows]
    if loads:
        print(f"\n{os.cpu_count()} cores, load {min(loads):.0f} to {max(loads):.0f}")
    write_json(arguments.json, {"cores": os.cpu_count(), "passed": passed, "faults": rows})
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
