"""What a refactoring must not change: runs, pages, figures, a fitted fleet, a recommendation. Made, then compared.

    python .ci/frozen.py make BEFORE            # about five minutes; on the commit before the change
    python .ci/frozen.py make AFTER             # on the commit after it
    python .ci/frozen.py compare BEFORE AFTER   # byte for byte; exit code 1 and a list where anything differs
    python .ci/frozen.py compare --numbers BEFORE AFTER   # pages by figures and cells: for a change of words

Times and the name of the folder are masked.
"""

import argparse
import filecmp
import html
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONFIGURATION = """\
[problem]
name = "digits"
clients = 24

[local]
steps = 3

[availability]
name = "markov"
availability = 0.5
correlation = 0.6
clients = 24

[run]
rounds = 30
seeds = 3
evaluate_every = 5
record_clients = true

[tune]
trials = 4
seeds = 2
space = {rate = [0.03, 0.1, 0.3]}

[[methods]]
name = "fedavg"

[[methods]]
name = "ca_fed"

[[methods]]
name = "mifa"
"""
WRITTEN = {".html", ".md", ".svg", ".txt"}
MASKS = [
    (re.compile(r'"(seconds|wall_seconds|compile_seconds|when|created|started|ended)": [^,\n}]+'), r'"\1": ""'),
    (re.compile(r"<dt>(Took|Time)</dt><dd>[^<]*"), r"<dt>\1</dt><dd>"),
    (re.compile(r"took (about )?\d[^<·,.;)\n]*"), "took"),
]


def make(folder: Path) -> None:
    """Everything, below `folder`."""
    folder.mkdir(parents=True)
    # Commands run in a folder of a fixed name: some of what they write says where it is.
    with tempfile.TemporaryDirectory() as parent:
        work = Path(parent) / "frozen"
        work.mkdir()
        (work / "small.toml").write_text(CONFIGURATION, "utf-8")
        (work / "every.toml").write_text(every_method(), "utf-8")
        for words in (
            "demo --rounds 40 --seeds 3 --out demo",
            "run small.toml --out run",
            "theory small.toml --out theory.html",
            "theory every.toml --out every.html",
            "tune small.toml --out tuned",
            "fleet example example --devices 40 --days 14",
            "fleet fit example/log.csv --simulated 39 --out fleet",
            "fleet recommend fleet --rounds 40 --trials 4 --seeds 3 --methods fedavg,unbiased,mifa,ca_fed "
            "--out recommendation",
            "reproduce ca_fed_fig1a cvar_toy_four --scale smoke --out reproduced",
        ):
            print(f"fedtide {words}", flush=True)
            command = [sys.executable, "-m", "fedtide", *words.split()]
            done = subprocess.run(
                command, cwd=work, capture_output=True, text=True, env=os.environ | {"COLUMNS": "120"}
            )
            (work / f"{'-'.join(words.split()[:2])}.txt").write_text(done.stdout, "utf-8")
            if done.returncode:
                sys.exit(f"fedtide {words}: exit {done.returncode}\n{done.stderr}")
        samples(work)
        stored(work / "stored")
        shutil.rmtree(work / "run" / "checkpoints", ignore_errors=True)
        for path in sorted(work.rglob("*")):
            if path.suffix in {".html", ".json", ".txt", ".toml"}:
                path.write_text(masked(path.read_text("utf-8").replace(str(work), "frozen")), "utf-8")
        shutil.copytree(work, folder, dirs_exist_ok=True)


def every_method() -> str:
    """The configuration with all methods, by their names alone."""
    from fedtide import methods

    head = CONFIGURATION.partition("[[methods]]")[0].replace("clients = 24", "clients = 12")
    return head + "".join(f'[[methods]]\nname = "{name}"\n\n' for name in methods.CATALOGUE)


def samples(work: Path) -> None:
    """Rounds drawn by the processes of the fitted fleet."""
    import numpy as np

    from fedtide import availability

    found = {}
    for name in ("fleet", "trace"):
        entry = availability.CATALOGUE[name]
        for seed in (0, 7):
            found[f"{name}-example-{seed}"] = entry.build(**entry.example).sample(seed, 96)
    for arguments in ({}, {"recorded": True}, {"clients": 60}):
        process = availability.CATALOGUE["fleet"].build(str(work / "fleet"), **arguments)
        for seed in (0, 7):
            found[f"fitted-{json.dumps(arguments)}-{seed}"] = process.sample(seed, 200)
    lines = {name: "".join("01"[int(x)] for x in np.asarray(rows).ravel()) for name, rows in found.items()}
    (work / "samples.json").write_text(json.dumps(lines, indent=1) + "\n", "utf-8")


def stored(folder: Path) -> None:
    """Pages and figures of the results that the documentation keeps, drawn again."""
    spec = importlib.util.spec_from_file_location("reproduce", ROOT / "docs" / "reproduce.py")
    assert spec is not None
    assert spec.loader is not None
    reproduce = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reproduce)
    for name in reproduce.study.names():
        if reproduce.stored(name) is not None:
            print(f"stored {name}", flush=True)
            reproduce.write_all(name, folder)
    for path, text in reproduce.pages():
        (folder / path.name).write_text(text, "utf-8")


def masked(text: str) -> str:
    for pattern, new in MASKS:
        text = pattern.sub(new, text)
    return text


def numbers(path: Path) -> list[str]:
    """The numbers of a page or a text in order: those of its figures (coordinates) and tables, sentences left out."""
    text = path.read_text("utf-8")
    if path.suffix in {".html", ".svg"}:
        text = re.sub(r"<style.*?</style>|<title>.*?</title>", "", text, flags=re.DOTALL)
        text = " ".join(re.findall(r"<t[dh][^>]*>[^<]*|<text[^>]*>[^<]*|<[^>]*>", text))
    if path.suffix == ".md":
        text = "\n".join(line for line in text.splitlines() if line.startswith("|"))
    return re.findall(r"-?\d+(?:\.\d+)?", html.unescape(text).replace("\N{MINUS SIGN}", "-"))


def same(before: Path, after: Path, *, words: bool) -> bool:
    if filecmp.cmp(before, after, shallow=False):
        return True
    return not words and before.suffix in WRITTEN and numbers(before) == numbers(after)


def compare(before: Path, after: Path, *, words: bool = True) -> int:
    names = {str(p.relative_to(folder)) for folder in (before, after) for p in folder.rglob("*") if p.is_file()}
    different = []
    for name in sorted(names):
        ours, theirs = before / name, after / name
        if not (ours.exists() and theirs.exists()):
            different.append(f"only in {before if ours.exists() else after}: {name}")
        elif not same(ours, theirs, words=words):
            different.append(f"differs: {name}")
    print(*different, f"{len(names)} files, {len(different)} different", sep="\n")
    return bool(different)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("make").add_argument("folder", type=Path)
    both = commands.add_parser("compare")
    both.add_argument("before", type=Path)
    both.add_argument("after", type=Path)
    both.add_argument("--numbers", action="store_true", help="pages by the numbers of figures and tables")
    given = parser.parse_args()
    if given.command == "compare":
        return compare(given.before, given.after, words=not given.numbers)
    make(given.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
