"""Every example in the README and the documentation works as it is written."""

import functools
import importlib.util
import re
import runpy
import shlex
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple, get_args

import jax
import pytest
import typer
from typer.testing import CliRunner

import fedtide
from fedtide import availability, methods
from fedtide.cli import app
from fedtide.experiments import build, loads
from fedtide.reproduce.results import MeasureName
from fedtide.reproduce.study import FigureKind

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r"^(?:<!-- test: (?P<note>[\w ]+) -->\n)?```(?P<kind>\w+)(?P<rest>[^\n]*)\n(?P<code>.*?)^```$", re.M | re.S
)


class Example(NamedTuple):
    """A fenced block of a page."""

    kind: str  # python, toml, sh
    code: str
    line: int
    title: str | None  # a file name, where the reader is to save it
    note: str | None  # "few rounds": expensive, run it with few; "needs torch": run it where torch is installed

    @property
    def few_rounds(self):
        return self.note == "few rounds"

    @property
    def needs(self):
        """Libraries that the test environment may lack."""
        return self.note.split()[1:] if self.note and self.note.startswith("needs ") else []


def examples(page: Path) -> list[Example]:
    text = page.read_text("utf-8")
    found = []
    for block in FENCE.finditer(text):
        title = re.search(r'title="([^"]+)"', block["rest"])
        line = text.count("\n", 0, block.start("code")) + 1
        note = block["note"]
        assert note in (None, "few rounds") or note.startswith("needs "), f"{page.name}:{line}: unknown note {note!r}"
        found.append(Example(block["kind"], block["code"], line, title and title[1], note))
    return found


WITH_CODE = [page for page in PAGES if examples(page)]

# What a table of one process lacks to be a configuration.
REST = """
[problem]
name = "quadratic"
clients = {clients}

[run]
rounds = 1

[[methods]]
name = "fedavg"
"""


@pytest.fixture(scope="module", autouse=True)
def compiled_in_haste():
    """A few rounds of many programs: compiling them well would take longer than running them badly."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
    jax.clear_caches()  # other tests get their own programs


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """A reader in an empty folder, whose methods are forgotten afterwards."""
    known, modules = dict(methods.CATALOGUE), set(sys.modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    importlib.invalidate_caches()
    yield tmp_path
    methods.CATALOGUE.clear()
    methods.CATALOGUE.update(known)
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def few_rounds(monkeypatch):
    """A function that makes `fedtide.simulate` and `sweep` run few rounds, of two seeds at most."""
    whole = {name: getattr(fedtide, name) for name in ("simulate", "sweep")}

    def shorter(run):
        @functools.wraps(run)
        def short(*args, rounds, seeds=1, **options):
            seeds = min(seeds, 2) if isinstance(seeds, int) else seeds[:2]
            return run(*args, rounds=min(rounds, 4), seeds=seeds, **{**options, "evaluate_every": 2})

        return short

    def use(wanted):
        for name, run in whole.items():
            monkeypatch.setattr(fedtide, name, shorter(run) if wanted else run)

    return use


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.stem)
def test_python_and_toml(page, reader, few_rounds):
    """Blocks of a page run one after the other, as a reader would run them."""
    names = {"__name__": "__main__"}
    for example in examples(page):
        if example.title is not None:
            (reader / example.title).write_text(example.code, "utf-8")
        if not all(map(importlib.util.find_spec, example.needs)):
            continue
        if example.kind == "python" and example.title is None:
            few_rounds(example.few_rounds)
            code = "\n" * (example.line - 1) + example.code  # so that errors name the page's line
            exec(compile(code, str(page), "exec"), names)
        elif example.kind == "toml":
            check_toml(example.code, f"{page.name}:{example.line}", reader)


def check_toml(text, place, folder):
    written = tomllib.loads(text)
    if set(written) == {"availability"}:
        entry = availability.find(written["availability"]["name"])
        clients = entry.build(**entry.example).clients
        assert build(loads(text + REST.format(clients=clients), place)).availability.clients == clients
        return
    if any(choice["name"] not in methods.CATALOGUE for choice in written["methods"]) or "claims" in written:
        return  # the reader's own method, or study: run below
    file = folder / "example.toml"
    file.write_text(text, "utf-8")
    checked = CliRunner().invoke(app, ["check", str(file)])
    assert checked.exit_code == 0, f"{place}: {checked.output}{checked.stderr}"


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.stem)
def test_commands_exist(page):
    group = typer.main.get_command(app)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for line in commands_of(page):
        for command in line.split(" && "):
            check_command(shlex.split(command, comments=True), group, extras, page)


def commands_of(page):
    found = [example.code.replace("\\\n", " ") for example in examples(page) if example.kind == "sh"]
    return [line for code in found for line in code.splitlines()]


def command_of(group, words):
    """(the command that the words begin with, its arguments)."""
    command, rest = group.commands[words[0]], words[1:]
    in_group = rest and rest[0] in getattr(command, "commands", ())
    return command_of(command, rest) if in_group else (command, rest)


def check_command(words, group, extras, page):
    match words:
        case ["fedtide", "--help" | "--version"]:
            pass
        case ["fedtide", *rest]:
            command, arguments = command_of(group, rest)
            command.make_context(command.name, [word for word in arguments if word != ">>"])  # raises on a bad option
        case ["pip", "install", *rest]:
            wanted = rest[-1].removeprefix(".").strip("[]")
            assert set(filter(None, wanted.split(","))) <= set(extras), page
        case ["python", script, *_]:
            titles = [example.title for example in examples(page)]
            assert script in titles or (ROOT / script).exists() or script == "-m", page
        case ["pytest" | "ruff" | "pyright" | "lint-imports" | "mkdocs" | ".ci/run", *_]:
            pass
        case _:
            pytest.fail(f"{page.name}: nobody checks {' '.join(words)}")


def test_the_reader_s_own_method_runs_from_the_command_line(reader, few_rounds, monkeypatch, capsys):
    """The page "add a method", to its end: the file, the configuration, the commands."""
    page = ROOT / "docs" / "add-a-method.md"
    for example in examples(page):
        if example.title is not None:
            (reader / example.title).write_text(example.code, "utf-8")
    few_rounds(True)
    assert len(commands_of(page)) == 3
    for command in commands_of(page):
        _, script, *arguments = shlex.split(command, comments=True)
        monkeypatch.setattr(sys, "argv", [script, *arguments])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(script, run_name="__main__")
        assert end.value.code in (0, None), capsys.readouterr().err
    assert "Longest waiting" in capsys.readouterr().out
    saved = fedtide.Result.load(reader / "runs" / "waiting")
    assert [method["name"] for method in saved.about["methods"]] == ["fedavg", "longest_waiting"]
    assert saved.rounds["invited"].max() == 5


def test_the_reader_s_own_study_runs_from_the_command_line(reader):
    """The page on studies: the file as it is written, and the command below it."""
    page = ROOT / "docs" / "experiments.md"
    (file,) = (example for example in examples(page) if example.title is not None)
    (reader / file.title).write_text(file.code, "utf-8")
    (command,) = (line for line in commands_of(page) if "--out" in line and line.startswith("fedtide"))
    result = CliRunner().invoke(app, shlex.split(command)[1:])
    assert result.exit_code == 0, result.output
    claims = tomllib.loads(file.code)["claims"]
    verdicts = [line for line in result.stdout.splitlines() if line.startswith(("holds", "undecided", "does not hold"))]
    assert len(verdicts) == len(claims) == 3
    assert {path.name for path in (reader / "tried" / "mine").iterdir()} == {"results.json", "page.html"}


def test_the_page_on_studies_explains_every_measure_and_figure():
    page = (ROOT / "docs" / "experiments.md").read_text("utf-8")
    assert [measure for measure in get_args(MeasureName) if f"| `{measure}` |" not in page] == []
    drawn = page.split("`shows` lists the figures")[1].split("\n\n")[0]
    assert [picture for picture in get_args(FigureKind) if f"`{picture}`" not in drawn] == []


def test_the_worked_example_is_as_short_as_promised():
    page = ROOT / "docs" / "add-a-method.md"
    file = next(example for example in examples(page) if example.title == "longest_waiting.py")
    lines = [line for line in file.code.split("\n@part\n")[1].split("\nif __name__")[0].splitlines() if line.strip()]
    assert len(lines) <= 30


def test_the_readme_s_example_has_twelve_lines():
    (example,) = (example for example in examples(ROOT / "README.md") if example.kind == "python")
    assert len(example.code.splitlines()) == 12
