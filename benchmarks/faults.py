"""Faults of a real federation: what the server observed, rounds lost, seconds to recover, updates lost.

python benchmarks/faults.py --json out.json

Runs tests/adapters/faults: real processes on this machine with three clients, which takes about ten minutes on idle
cores. A fault whose test fails is not in the table. An update is lost if the ledger counts it and the model does not
contain it.
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
    """(one row per fault, whether all tests passed)."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "faults.jsonl"
        file.touch()
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "FEDTIDE_FAULTS": str(file)}
        tests = [sys.executable, "-m", "pytest", "-n", "0", "-m", "slow or not slow", "tests/adapters/faults"]
        tests += ["-k", only] if only else []
        done = subprocess.run(tests, cwd=ROOT, env=environment, check=False)
        return [json.loads(line) for line in file.read_text().splitlines()], done.returncode == 0


def table(rows: list[dict[str, object]]) -> str:
    """The rows in Markdown."""
    lines = ["| fault | what the server observed | rounds lost | seconds to recover | acknowledged updates lost |"]
    lines.append("|---|---|---|---|---|")
    for row in rows:
        seconds = "–" if row["seconds"] is None else f"{row['seconds']:.0f}"
        lines.append(f"| {row['fault']} | {row['saw']} | {row['rounds_lost']} | {seconds} | {row['updates_lost']} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="The cost of faults in a real federation.")
    parser.add_argument("--json", help="write the numbers to this file")
    parser.add_argument("--only", default="", help="only the faults whose test matches this expression (pytest -k)")
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
