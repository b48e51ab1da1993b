"""The command `theory`."""

import re

import pytest

CA_FED = """
[[methods]]
name = "ca_fed"
kappa_squared = 0.1

[[methods]]
name = "fedavg"
label = "<b>sampled</b>"
clients = 2
"""


def text_of(page):
    body = re.sub(r"<style>.*?</style>|<svg.*?</svg>|<[^>]+>", " ", page.read_text("utf-8"), flags=re.DOTALL)
    return " ".join(body.split())


def test_it_writes_a_page_and_a_table(fedtide, config, tmp_path):
    config.write_text(config.read_text("utf-8") + CA_FED, "utf-8")
    result = fedtide("theory", config)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == "Page: theory/small.html"
    table = result.stdout.splitlines()
    assert table[0].split()[:3] == ["method", "misplaced", "bias"]
    assert any(line.startswith("Unbiased") and "0.0%" in line for line in table)
    page = tmp_path / "theory" / "small.html"
    assert [p.name for p in page.parent.iterdir()] == ["small.html"]
    text = text_of(page)
    for words in (
        "Of 6 clients, 3 are available", "Unbiased", "an unbiased limit", "After 4 rounds",
        "Clients that CA-Fed excludes", "Numbers", "Guarantees",
    ):  # fmt: skip
        assert words in text, words
    raw = page.read_text("utf-8")
    assert raw.count("<figure") == 5
    assert "<b>sampled</b>" not in raw
    assert "http://" not in re.sub(r'xmlns(:xlink)?="[^"]+"', "", raw)


def test_rounds_and_out(fedtide, config, tmp_path):
    result = fedtide("theory", config, "--rounds", 1500, "--out", "long.html")
    assert result.exit_code == 0
    assert "After 1,500 rounds" in text_of(tmp_path / "long.html")
    assert "--rounds 1500" in text_of(tmp_path / "long.html")


def test_the_same_page_twice(fedtide, config, tmp_path):
    pages = []
    for name in ("a.html", "b.html"):
        assert fedtide("theory", config, "--out", name).exit_code == 0
        pages.append((tmp_path / name).read_text("utf-8").replace(name, ""))
    assert pages[0] == pages[1]


def test_softmax_regression(fedtide, config, tmp_path):
    text = config.read_text("utf-8").replace('name = "quadratic"', 'name = "digits"')
    config.write_text(text.replace('"paper_population"', '"spatial_population"\nclusters = 2\nclients_per_cluster = 3'))
    result = fedtide("theory", config)
    assert result.exit_code == 0, result.output
    text = text_of(tmp_path / "theory" / "small.html")
    assert "Condition κ = L/μ" in text
    assert "Joint availability was estimated" in text
    assert "Guarantees" not in text  # clients of a cluster are not independent


def test_a_schedule_without_chains(fedtide, config, tmp_path):
    config.write_text(config.read_text("utf-8").replace('"paper_population"', '"cyclic"\ngroups = 2'), "utf-8")
    result = fedtide("theory", config)
    assert result.exit_code == 0, result.output
    assert "not a two-state chain" in text_of(tmp_path / "theory" / "small.html")


def test_a_model_that_theory_does_not_know(fedtide, config, tmp_path, monkeypatch):
    monkeypatch.setattr("fedtide.theory.experiment.known_problem", lambda problem: None)
    config.write_text(config.read_text("utf-8") + CA_FED, "utf-8")
    result = fedtide("theory", config)
    assert result.exit_code == 0, result.output
    text = text_of(tmp_path / "theory" / "small.html")
    assert "For this model, the page shows availability and the importance of clients." in text
    assert "Its exclusions depend on losses" in text
    assert "No path is predicted" in text


def test_momentum_has_a_limit_but_no_path(fedtide, config, tmp_path):
    text = config.read_text("utf-8") + 'solver = {name = "momentum", rate = 0.05}\n'
    config.write_text(text, "utf-8")
    assert fedtide("theory", config).exit_code == 0
    assert "Unbiased: Its steps are not plain SGD" in text_of(tmp_path / "theory" / "small.html")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.toml"], "missing.toml: No such file"),
        (["small.toml", "--rounds", "0"], "--rounds"),
    ],
)
def test_bad_input(fedtide, config, arguments, words):
    result = fedtide("theory", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr


def test_a_bad_configuration_is_one_line(fedtide, config, tmp_path):
    config.write_text(config.read_text("utf-8").replace("paper_population", "paper_poplation"), "utf-8")
    result = fedtide("theory", config)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert "did you mean 'paper_population'?" in result.stderr
    assert not (tmp_path / "theory").exists()


def test_a_page_that_cannot_be_written(fedtide, config, tmp_path):
    (tmp_path / "theory").write_text("a file", "utf-8")
    result = fedtide("theory", config)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("error: ")
