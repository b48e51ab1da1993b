"""Runs studies of the papers, several cases at a time, and writes their results, as in docs/reproductions/data.

    python examples/reproduce_all.py --scale reduced --data-dir DATA --out docs/reproductions/data --jobs 6

Each case runs in its own processes (--workers of them, which share its steps), so that one can compile while others
compute, even on one GPU. What a case has computed is kept below OUT/cells, so that the command can be stopped and
started again.

Small models leave most of a GPU idle; NVIDIA's Multi-Process Service lets processes use it at the same time:

    nvidia-cuda-mps-control -d
"""

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path


def one(name: str, case: int | None, scale: str, data_dir: Path | None, out: Path) -> None:
    """Runs a case of a study in this process, or gathers the results of all its cases."""
    from fedtide.reproduce.run import reproduce
    from fedtide.reproduce.study import plan

    planned = plan(name, scale, data_dir)  # pyright: ignore[reportArgumentType]
    cells = out / "cells" / f"{planned.name}-{scale}"
    if case is not None:
        reproduce(planned._replace(panels=planned.panels[case : case + 1]), cells=cells)
        return
    command = f"fedtide reproduce {name} --scale {scale}" + (" --data-dir DATA" if data_dir else "")
    results = reproduce(planned, cells=cells).model_copy(update={"command": command})
    results.write(out / f"{results.name}.json", separators=(",", ":"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="studies to run (default: all)")
    parser.add_argument("--scale", default="reduced", choices=("smoke", "reduced", "paper"))
    parser.add_argument("--data-dir", type=Path, help="folder with the data sets")
    parser.add_argument("--out", type=Path, default=Path("reproductions"), help="folder for the results")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes that run at a time")
    parser.add_argument("--workers", type=int, default=1, help="number of processes that share the steps of a case")
    parser.add_argument("--in-process", action="store_true", help="run one study in this process")
    parser.add_argument("--case", type=int, help="with --in-process: the case to run, without its results")
    given = parser.parse_args()
    if given.in_process:
        return one(given.names[0], given.case, given.scale, given.data_dir, given.out)
    from fedtide.reproduce.study import names, plan

    shared = [] if given.data_dir is None else ["--data-dir", str(given.data_dir)]
    # Several processes share a GPU only if none takes all of its memory.
    environment = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}

    def run(name: str, case: int | None = None) -> bool:
        begun = time.monotonic()
        options = ["--scale", given.scale, "--out", str(given.out), *shared]
        options += [] if case is None else ["--case", str(case)]
        command = [sys.executable, __file__, name, "--in-process", *options]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        outcome = "done" if done.returncode == 0 else f"failed: {' '.join(done.stderr.split()[-40:])}"
        what = name if case is None else f"{name}, case {case + 1}"
        print(f"{what}: {outcome} ({time.monotonic() - begun:.0f} s)", flush=True)
        return done.returncode == 0

    def study(pool: ThreadPoolExecutor, name: str) -> bool:
        cases = len(plan(name, given.scale, given.data_dir).panels)
        shares = [case for _ in range(given.workers) for case in range(cases)]
        return all(list(pool.map(partial(run, name), shares))) and run(name)

    chosen = given.names or names()
    with ThreadPoolExecutor(given.jobs) as pool, ThreadPoolExecutor(len(chosen)) as studies:
        ended = list(studies.map(partial(study, pool), chosen))
    sys.exit(0 if all(ended) else 1)


if __name__ == "__main__":
    main()
