"""The two comparisons of "Getting started", tuned and run as written there: the page's numbers are what they print."""

import re
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedtide
from fedtide.cli import app

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "getting-started.md").read_text("utf-8")
CONFIG = re.search(r'```toml title="matters.toml"\n(.*?)```', PAGE, re.S)[1]  # pyright: ignore[reportOptionalSubscript]
SAME = re.search(r"```text\n(partition = .*)\n```", PAGE)[1]  # pyright: ignore[reportOptionalSubscript]
ROW = re.compile(r"^\| (\S+) \| ([\d.]+) \| ([\d.]+)% \|(.*?)\| ([\d.]+)% \|$", re.M)


def table(heading: str) -> list[tuple[str, ...]]:
    return ROW.findall(PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0])


def test_both_tables_are_there():
    for heading in ("When availability matters", "When it does not"):
        assert [row[0] for row in table(heading)] == ["FedAvg", "Unbiased", "CA-Fed", "FedVARP"]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "heading"), [("matters", "When availability matters"), ("same", "When it does not")])
def test_numbers_are_those_of_the_commands(name, heading, tmp_path, monkeypatch):
    """To a quarter of a point: processors round differently."""
    monkeypatch.chdir(tmp_path)
    text = CONFIG if name == "matters" else re.sub(r"^partition = .*$", SAME, CONFIG, flags=re.M)
    Path(f"{name}.toml").write_text(text, "utf-8")
    tuned = f"tuned/{name}/tuned.toml"
    for command in (["tune", f"{name}.toml"], ["run", tuned, "--out", f"runs/{name}"]):
        assert CliRunner().invoke(app, command).exit_code == 0
    rates = [method["rate"] for method in tomllib.loads(Path(tuned).read_text("utf-8"))["methods"]]
    summary = fedtide.Result.load(f"runs/{name}").summary("FedAvg").to_dicts()
    for row, rate, (method, tuned_rate, final, change, worst) in zip(summary, rates, table(heading), strict=True):
        assert row["method"] == method
        assert rate == float(tuned_rate)
        assert 100 * row["final"] == pytest.approx(float(final), abs=0.25)
        assert 100 * row["worst_decile"] == pytest.approx(float(worst), abs=1)
        if change.strip():
            mean, low, high = (float(x.replace("−", "-")) for x in re.findall(r"[+−]?[\d.]+", change))
            wanted = [100 * row[f"difference{end}"] for end in ("", "_low", "_high")]
            assert wanted == pytest.approx([mean, low, high], abs=0.5)
