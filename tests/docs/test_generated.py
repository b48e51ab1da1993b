"""Generated documentation is up to date, and hand-written pages agree with the code."""

import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import fedtide
from fedtide import aggregation, availability, estimators, methods, participation, solvers
from fedtide.problems.models import MODELS
from fedtide.summaries import SCHEMA

ROOT = Path(__file__).resolve().parents[2]
REGENERATE = "run: python docs/generate.py"


def test_generated_blocks_are_up_to_date(generator):
    pages = dict(generator.pages())
    stale = [path.name for path, text in pages.items() if path.read_text("utf-8") != text]
    assert not stale, REGENERATE
    assert {"methods.md", "availability.md", "configuration.md"} <= {path.name for path in pages}


def test_pictures_are_up_to_date(generator):
    stale = [path.name for path, text in generator.pictures() if not path.exists() or path.read_text("utf-8") != text]
    assert not stale, REGENERATE


def test_commands_of_groups_have_sections_of_their_own():
    page = (ROOT / "docs" / "command-line.md").read_text("utf-8")
    sections = {line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")}
    assert {"demo", "experiments", "reproduce", "data", "data fetch", "data show"} <= sections


def test_every_public_module_has_a_page_that_is_in_the_navigation(generator):
    nav = (ROOT / "mkdocs.yml").read_text("utf-8")
    for name in (*generator.PACKAGES, "studies"):
        page = (ROOT / "docs" / "reference" / f"{name}.md").read_text("utf-8")
        assert f"<!-- generated: reference-{name} -->" in page
        assert f"reference/{name}.md" in nav
    models = (ROOT / "docs" / "reference" / "models.md").read_text("utf-8")
    assert all(f".{name}\n" in models for name in MODELS)


def row_of(page: str, name: str) -> str:
    (row,) = (line for line in page.splitlines() if line.startswith("| ") and f" `{name}` |" in line)
    return row


@pytest.mark.parametrize("name", methods.CATALOGUE)
def test_the_guide_has_every_method_with_its_facts(name):
    entry = methods.find(name)
    guide = (ROOT / "docs" / "methods.md").read_text("utf-8").split("## All methods")[1]
    row, facts = row_of(guide, name), entry.facts
    assert f" | {entry.summary.rstrip('.')} |" in row
    for fact in (facts.unbiased, facts.server_memory, facts.client_memory, facts.needs):
        assert f" | {fact} |" in row
    for message in (facts.extra_up, facts.extra_down):
        assert message in row or message == "–"


@pytest.mark.parametrize("page", ["docs/index.md", "docs/methods.md", "docs/configuration.md", "docs/experiments.md"])
def test_rows_have_as_many_cells_as_their_table_has_headings(page):
    table: int | None = None
    for line in (ROOT / page).read_text("utf-8").splitlines():
        cells = line.replace("\\|", "").count("|") if line.startswith("|") else None
        assert None in (table, cells) or cells == table, line
        table = cells


QUESTIONS = (ROOT / "docs" / "methods.md").read_text("utf-8").split("## What to measure")[0]


def test_every_method_is_recommended_for_something():
    assert [name for name in methods.CATALOGUE if f"{name}(" not in QUESTIONS] == []


def test_every_recommendation_is_a_line_that_runs():
    """The second column of the decision tables, with everything that the page may mean by a name."""
    known = {}
    for package in (fedtide, aggregation, estimators, methods, participation, solvers):
        known |= {name: getattr(package, name) for name in package.__all__}
    rows = [line.split(" | ") for line in QUESTIONS.splitlines() if line.startswith("| ")]
    lines = [row[1].strip("`") for row in rows if row[1].startswith("`")]
    assert len(lines) > 40
    for line in lines:
        assert isinstance(eval(line, dict(known)), fedtide.Method), line


def test_the_readme_s_pictures_are_there_in_both_themes():
    readme = (ROOT / "README.md").read_text("utf-8")
    for name in ("matters", "does-not-matter"):
        for theme in ("light", "dark"):
            assert f"docs/pictures/{name}-{theme}.svg" in readme
            assert (ROOT / "docs" / "pictures" / f"{name}-{theme}.svg").read_text("utf-8").count("<path") > 10


def test_every_process_is_recommended_for_something():
    page = (ROOT / "docs" / "availability.md").read_text("utf-8")
    choice = page.split("## Which one?")[1].split("\n## ")[0]
    assert [name for name in availability.CATALOGUE if f"(#{name})" not in choice] == []


@pytest.fixture(scope="module")
def result():
    problem, fleet = fedtide.problems.random_quadratic(clients=6), fedtide.availability.Bernoulli([0.9, 0.5, 0.3] * 2)
    return fedtide.simulate(problem, fleet, fedtide.methods.fedavg(), rounds=2)


@pytest.mark.parametrize("table", ["rounds", "clients"])
def test_the_tables_have_the_documented_columns(result, table):
    page = (ROOT / "docs" / "records.md").read_text("utf-8")
    section = page.split(f"## {table}\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    documented = {name.strip("`"): getattr(pl, kind) for name, kind, _ in rows}
    assert dict(getattr(result, table).schema) == documented


def test_the_summary_has_the_documented_columns():
    page = (ROOT / "docs" / "records.md").read_text("utf-8")
    section = page.split("## summary\n")[1].split("\n## ")[0]
    for name in SCHEMA:
        stem = name.removesuffix("_low").removesuffix("_high")
        assert f"`{stem}`" in section or stem in ("method", "metric", "baseline", "round", "seeds", "diverged")


def test_the_walks_of_the_architecture_are_files_that_exist():
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    rounds, recommend = (re.findall(r"^\d+\. `(src/[^`]+)`", part, re.M) for part in page.split("\n## ")[1:3])
    assert (len(rounds), len(recommend) <= 20) == (13, True)
    assert [name for name in (*rounds, *recommend) if not (ROOT / name).is_file()] == []


def test_the_walk_of_recommend_is_what_it_imports():
    """What is listed under `fleet recommend` is imported by it: a file that moved away would be missed."""
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8").split("\n## ")[2]
    listed = re.findall(r"`src/(fedtide/[^`]+)\.py`", page)
    code = "import sys, fedtide.cli.recommending, fedtide.fleet.recommendation; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in listed if name.replace("/", ".") not in loaded] == []
