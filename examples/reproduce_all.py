"""Runs studies of the papers, several at a time, and writes their results, as stored in docs/reproductions/data.

    python examples/reproduce_all.py --scale reduced --data-dir DATA --out docs/reproductions/data --jobs 6

Each study runs in its own process, so that one can compile while others compute, even on one GPU.
"""

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def one(name: str, scale: str, data_dir: Path | None, out: Path) -> None:
    """Runs one study in this process."""
    from fedtide.reproduce.run import reproduce
    from fedtide.reproduce.study import plan

    results = reproduce(plan(name, scale, data_dir))  # pyright: ignore[reportArgumentType]
    command = f"fedtide reproduce {name} --scale {scale}" + (" --data-dir DATA" if data_dir else "")
    results.model_copy(update={"command": command}).write(out / f"{results.name}.json", separators=(",", ":"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="studies to run (default: all)")
    parser.add_argument("--scale", default="reduced", choices=("smoke", "reduced", "paper"))
    parser.add_argument("--data-dir", type=Path, help="folder with the data sets")
    parser.add_argument("--out", type=Path, default=Path("reproductions"), help="folder for the results")
    parser.add_argument("--jobs", type=int, default=1, help="number of studies that run at a time")
    parser.add_argument("--in-process", action="store_true", help="run one study in this process")
    given = parser.parse_args()
    if given.in_process:
        return one(given.names[0], given.scale, given.data_dir, given.out)
    from fedtide.reproduce.study import names

    shared = [] if given.data_dir is None else ["--data-dir", str(given.data_dir)]
    # Several processes share a GPU only if none takes all of its memory.
    environment = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}

    def run(name: str) -> bool:
        begun = time.monotonic()
        options = ["--scale", given.scale, "--out", str(given.out), *shared]
        command = [sys.executable, __file__, name, "--in-process", *options]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        outcome = "done" if done.returncode == 0 else f"failed: {' '.join(done.stderr.split()[-40:])}"
        print(f"{name}: {outcome} ({time.monotonic() - begun:.0f} s)", flush=True)
        return done.returncode == 0

    with ThreadPoolExecutor(given.jobs) as pool:
        ended = list(pool.map(run, given.names or names()))
    sys.exit(0 if all(ended) else 1)


if __name__ == "__main__":
    main()
