"""Runs studies of the papers, several at a time, and writes their numbers: how docs/reproductions/data was made.

    python examples/reproduce_all.py --scale reduced --data-dir DATA --out docs/reproductions/data --jobs 6

Each study is a process of its own: one compiles while others compute, also on one GPU.
It needs jax, numpy and pydantic.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def one(name: str, scale: str, data_dir: Path | None, out: Path) -> None:
    """Runs one study in this process."""
    from fedtide.experiments.reproduce import reproduce
    from fedtide.experiments.study import plan
    from fedtide.files import atomic

    results = reproduce(plan(name, scale, data_dir))  # pyright: ignore[reportArgumentType]
    results["command"] = f"fedtide reproduce {name} --scale {scale}" + (" --data-dir DATA" if data_dir else "")
    with atomic(out / f"{results['name']}.json") as temporary:
        temporary.write_text(json.dumps(results, separators=(",", ":"), ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="studies; all of them where none is named")
    parser.add_argument("--scale", default="reduced", choices=("smoke", "reduced", "paper"))
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("reproductions"))
    parser.add_argument("--jobs", type=int, default=1, help="studies at a time")
    parser.add_argument("--here", action="store_true", help="one study, in this process")
    given = parser.parse_args()
    if given.here:
        return one(given.names[0], given.scale, given.data_dir, given.out)
    from fedtide.experiments.study import names

    shared = [] if given.data_dir is None else ["--data-dir", str(given.data_dir)]
    # Several processes share a GPU only if none takes all of its memory.
    environment = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}

    def run(name: str) -> bool:
        begun = time.monotonic()
        command = [sys.executable, __file__, name, "--here", "--scale", given.scale, "--out", str(given.out), *shared]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        said = "done" if done.returncode == 0 else f"failed: {' '.join(done.stderr.split()[-40:])}"
        print(f"{name}: {said} ({time.monotonic() - begun:.0f} s)", flush=True)
        return done.returncode == 0

    with ThreadPoolExecutor(given.jobs) as pool:
        ended = list(pool.map(run, given.names or names()))
    sys.exit(0 if all(ended) else 1)


if __name__ == "__main__":
    main()
