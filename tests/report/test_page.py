import re
from html.parser import HTMLParser

import polars as pl
import pytest

from fedtide.report import render, write

HOSTILE = "</pre></title><script>alert('x')</script><img src=http://evil.example/x onerror=alert(1)>&\"'"


class Reader(HTMLParser):
    """Tags, attributes and text of a page, with its tags balanced."""

    VOID = frozenset({"meta", "br", "img", "link", "hr", "input"})

    def __init__(self, page: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("style", "script"):
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


@pytest.fixture(scope="module")
def page(small):
    return render(*small)


def test_it_holds_what_a_reader_looks_for(small, page):
    read = Reader(page)
    for wanted in (
        small.about["title"],
        "CA-Fed has the highest test accuracy",
        "2 seeds",
        "12 clients",
        "fedtide demo",
        'name = "synthetic_leaf"',
        "jax 0.8.1",
        "2 × CPU (x86_64), 8 GiB",
        "0, 1",
        "@article{CA-Fed,",
        "With 2 seeds the intervals are only indicative",
        "needs estimates: no",
        "solver Sgd(rate=0.1, work=Steps(count=5))",
    ):
        assert wanted in read.words
    figures = [a["id"] for tag, a in read.tags if tag == "figure"]
    assert figures == [
        f"figure-{n}" for n in ("learning", "objective", "available", "included", "importance", "by_class")
    ]


def test_it_needs_nothing_else(page):
    read = Reader(page)
    assert not {tag for tag, _ in read.tags} & {"script", "link", "iframe", "object", "embed"}
    for _, attributes in read.tags:
        for name, value in attributes.items():
            if name in ("src", "href", "xlink:href"):
                assert (value or "").startswith(("data:", "#"))
            assert not name.startswith("on")
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)
    assert "default-src 'none'" in page


def test_it_can_be_read_aloud(page):
    read = Reader(page)
    drawings = [a for tag, a in read.tags if tag == "svg"]
    assert all(a.get("aria-label") or a.get("aria-hidden") for a in drawings)
    assert sum(a.get("role") == "img" for a in drawings) == 12
    assert all("scope" in a for tag, a in read.tags if tag == "th")
    ids = [a["id"] for _, a in read.tags if "id" in a]
    assert len(ids) == len(set(ids))


def test_hostile_text_stays_text(make):
    methods = (HOSTILE, "{{ 7 * 191 }}", "b")
    rounds, clients, about = make(methods=methods)
    about |= dict.fromkeys(("title", "command", "config", "hardware"), HOSTILE)
    about |= {"warnings": [HOSTILE], "versions": {HOSTILE: HOSTILE}, "problem": {"name": HOSTILE, HOSTILE: HOSTILE}}
    about["availability"] |= {"name": HOSTILE, "classes": [HOSTILE] * 6 + ["b"] * 6}
    about["methods"] = [
        dict.fromkeys(("label", "title", "summary", "bibtex"), HOSTILE) | {"settings": {HOSTILE: HOSTILE}}
    ]
    page = render(rounds, clients, about)
    read = Reader(page)
    assert not {tag for tag, _ in read.tags} & {"script", "img"}
    assert not any(name.startswith("on") for _, attributes in read.tags for name in attributes)
    assert HOSTILE in read.words
    assert "1337" not in page


@pytest.mark.parametrize("clients", ["none", "no rows", "no columns"])
def test_without_clients_what_needs_them_is_skipped_and_said(small, clients):
    given = {"none": None, "no rows": small.clients.clear(), "no columns": pl.DataFrame()}[clients]
    read = Reader(render(small.rounds, given, small.about))
    assert [a["id"] for tag, a in read.tags if tag == "figure"] == ["figure-learning", "figure-objective"]
    assert read.words.count("This run has no records by client") == 1
    assert "Run it with record_clients = true" in read.words


def test_without_a_run_that_finished_clients_are_not_said_to_be_missing(make):
    rounds, clients, about = make(methods=("FedAvg", "CA-Fed"))
    lost = rounds.with_columns(objective=pl.lit(float("nan"), pl.Float32))
    read = Reader(render(lost, clients, about))
    assert "Every seed of every method diverged, so there are no results by client" in read.words
    assert "did not record" not in read.words


def test_without_accuracy_the_objective_leads(make):
    read = Reader(render(*make(methods=("FedAvg", "CA-Fed"), accuracy=False)))
    figures = [a["id"] for tag, a in read.tags if tag == "figure"]
    assert figures == ["figure-learning", "figure-available", "figure-included", "figure-importance"]
    assert "Final objective" in read.words
    assert "lower is better" in read.words
    assert "Worst decile" not in read.words
    assert "Clients have no test accuracy" in read.words


def test_one_method_and_one_seed(make):
    read = Reader(render(*make(methods=("FedAvg",), seeds=1)))
    assert "FedAvg reaches" in read.words
    assert "vs FedAvg" not in read.words
    assert "With one seed there are no intervals" in read.words


def test_diverged_seeds_are_reported_and_the_rest_goes_on(small):
    bad = (pl.col("method") == "CA-Fed") & (pl.col("seed") == 0) & pl.col("objective").is_not_null()
    lost = pl.when(bad).then(pl.lit(float("nan"))).otherwise(pl.col("objective")).alias("objective")
    weights = pl.when((pl.col("method") == "CA-Fed") & (pl.col("seed") == 0)).then(float("nan")).otherwise("weight")
    read = Reader(render(small.rounds.with_columns(lost), small.clients.with_columns(weight=weights), small.about))
    assert "CA-Fed: 1 seed diverged" in read.words
    assert "nan" not in read.words.lower()


def test_everything_diverged(small):
    rounds = small.rounds.with_columns(
        pl.when(pl.col("objective").is_not_null()).then(float("inf")).alias("objective"),
        pl.lit(float("nan"), pl.Float32).alias("test_accuracy"),
    )
    read = Reader(render(rounds, small.clients, small.about))
    assert "every seed diverged" in read.words


def test_an_almost_empty_about(small):
    assert "has the highest test accuracy" in Reader(render(small.rounds, None, {})).words


def test_what_reads_alike_is_marked_alike(small):
    flat = small.rounds.with_columns(pl.lit(0.0, pl.Float32).alias("worst_decile"))
    flat = flat.with_columns(pl.when(method="FedAvg").then("test_accuracy").otherwise(0.9).alias("test_accuracy"))
    marked = re.findall(r'<td class="best"><span>([^<]*)</span>', render(flat, None, small.about))
    assert marked.count("90.0%") == 4  # two methods, final and time average
    assert "0.0%" not in marked


def test_a_chosen_baseline(small):
    assert "vs CA-Fed" in Reader(render(small.rounds, None, small.about, baseline="CA-Fed")).words


def test_runs_of_unequal_length_are_told(small):
    cut = small.rounds.filter((pl.col("method") != "F3AST") | (pl.col("round") <= 10))
    assert "their last evaluations are at rounds 10, 20" in Reader(render(cut, None, small.about)).words


def test_many_methods(make):
    many = make(methods=tuple(f"method {n}" for n in range(14)), seeds=1, rounds=6, clients=4, evaluate_every=3)
    assert Reader(render(many.rounds, None, many.about)).words.count("method 13") >= 2


def test_the_file_is_whole_or_not_there(small, tmp_path, monkeypatch):
    path = write(tmp_path / "report.html", small.rounds, None, small.about)
    text = path.read_text(encoding="utf-8")
    assert text == render(small.rounds, None, small.about)
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write(path, small.rounds, None, {"title": "another"})
    assert path.read_text(encoding="utf-8") == text
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_the_demo_page_is_small(demo_page):
    assert demo_page.stat().st_size < 1_000_000
