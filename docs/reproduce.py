"""The pages of docs/reproductions, from stored results and the packaged studies. `docs/generate.py` calls this.

    python docs/reproduce.py               # these pages and figures only

    docs/reproductions/data/NAME.json      what `fedtide reproduce NAME` found: results.json
    docs/reproductions/why.toml            what people have to say about it, by study

        [ca_fed_fig1a]
        note = "A paragraph below the table of claims."
        claims = {1 = "Why the first claim came out as it did."}
        not_run = "Why there are no results."

Figures are drawn when their data or the code that draws them change: pictures/drawn.json knows from what each was made.
"""

import functools
import hashlib
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedtide import report
from fedtide.experiments import claims, study
from fedtide.report import reproduction
from fedtide.report import reproduction_words as told
from fedtide.report.reproduction_figures import pictures, standalone

FOLDER = Path(__file__).resolve().parent / "reproductions"
PICTURES = FOLDER / "pictures"
DRAWN = PICTURES / "drawn.json"
CODE = ("reproduction_[!w]*.py", "curves.py", "maps.py", "picture.py", "svg.py")  # that figures depend on
COVERED = """\
**What is covered.** Of CA-Fed: Fig. 1, what κ̄² does (Fig. 2, with 200 rounds in place of 500), and the table of the
code's README. The studies called Fig. 3, 4 and 5 are our readings, made without the captions, and are not numbered as
the paper's figures: its Fig. 3 varies how different clients' data are (5c here), its Fig. 4 how long availability is
observed (3 here, on other data and without the errors of the estimates), its Fig. 5 has clients that come and go
together (4a and 4b here). No figure of the paper varies what 5a, 5b and 5d do, and its Table I, of computing times, has
no study. Of Fed-CVaR-Avg: Fig. 2 to 4 and Table 1. Of stochastic approximation: the accuracies of Fig. 2, in one study
for Fashion-MNIST and one, called Fig. 3, for the other data sets; the test losses of its Fig. 3 are not judged. Of the
slides: one study for each of five methods, not for every figure. Each study says what of its settings is published and
what is our reading."""
HEADINGS = ["Claim", "Published", "Ours (95% interval)", "Verdict", "Why"]
RULES = """\
All methods of a study meet the same data, availability, minibatches and initial models, so every difference is paired.
The statistic and the threshold that decide a claim are part of the study's file. A claim **holds** where the whole
interval of the difference is on its side of the threshold, **does not hold** where none of the interval is, and is
**undecided** otherwise. Of several comparisons all must hold; where some do and none is refuted, it holds **partly**.
Intervals are Student's, over data draws (over seeds where there is one draw), 95 % for all comparisons of a claim
together. Every tuned method had the same number of trials, judged on validation data of a data draw that it is not
compared on; published settings are run as rows of their own. Intervals hold given the settings that were chosen: they
do not know how tuning might have gone on other data. Of so many claims at 95 %, some verdicts will be wrong."""


@functools.cache
def stored(name: str) -> dict[str, Any] | None:
    """The results of a study; None where there are none."""
    path = FOLDER / "data" / f"{name}.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else None


@functools.cache
def remarks() -> dict[str, Any]:
    path = FOLDER / "why.toml"
    return tomllib.loads(path.read_text("utf-8")) if path.exists() else {}


@functools.cache
def judged(name: str) -> list[dict[str, Any]]:
    """The study's claims with their verdicts, as rows."""
    rows = reproduction.rows(claims.judge(study.load_study(name)[1], stored(name)), claims.in_words)
    said = remarks().get(name, {})
    for number, row in enumerate(rows, 1):
        own = [told.because(row), said.get("claims", {}).get(str(number), "")]
        if stored(name) is None:
            own = [said.get("not_run", "Not run yet.")]
        row["because"] = " ".join(filter(None, own))
    return rows


def stale() -> list[str]:
    """Studies whose figures are missing or were drawn from other data or by other code."""
    drawn = _drawn()
    files = {path.name for path in PICTURES.glob("*.svg")}
    found = [
        name
        for name in study.names()
        if stored(name) is not None
        and (name not in drawn or drawn[name]["from"] != _digest(name) or not set(_files(name, drawn[name])) <= files)
    ]
    return found


def draw(name: str) -> None:
    """Draws a study's figures, wide and narrow."""
    results = stored(name)
    assert results is not None
    found = pictures(reproduction.facts(study.load_study(name)[1]), results)
    PICTURES.mkdir(parents=True, exist_ok=True)
    for figure, picture in found.items():
        for layout in ("wide", "narrow"):
            text = standalone(getattr(picture, layout))
            (PICTURES / f"{name}-{figure}-{layout}.svg").write_text(text, "utf-8")
    drawn = _drawn()
    drawn[name] = {
        "from": _digest(name),
        "figures": {figure: {"alt": p.alt, "caption": p.caption} for figure, p in found.items()},
    }
    known = {key: drawn[key] for key in study.names() if key in drawn and stored(key) is not None}
    DRAWN.write_text(json.dumps(known, ensure_ascii=False, indent=1) + "\n", "utf-8")
    wanted = {file for key, one in known.items() for file in _files(key, one)}
    for path in PICTURES.glob("*.svg"):
        if path.name not in wanted:
            path.unlink()


def pages() -> Iterator[tuple[Path, str]]:
    """Every page and its text."""
    yield FOLDER / "index.md", index_page()
    for key, paper in study.papers().items():
        yield FOLDER / f"{key}.md", paper_page(key, paper)


def summary(folder: str) -> str:
    """How many of each paper's claims hold; `folder` is where the pages are."""
    rows, every, ours = [], [], []
    for key, found in study.by_paper().items():
        own = [row for name in found for row in judged(name)]
        ours += [row for row in own if row["source"] == "ours"]
        theirs = [row for row in own if row["source"] != "ours"]
        if theirs:
            rows.append([f"[{study.papers()[key].title}]({folder}{key}.md)", *_counted(theirs)])
        every += theirs
    rows.append(["**All claims of papers**", *_counted(every)])
    rows.append([f"Questions of our own, [beyond]({folder}beyond.md) the papers and about them", *_counted(ours)])
    counts = table(["", "Claims", *(f"{mark} {verdict}" for verdict, mark in told.MARKS.items())], rows)
    return f"{counts}\n{_scales()}\n"


def _scales() -> str:
    """At what scale the studies ran."""
    found = [results["scale"] for name in study.names() if (results := stored(name)) is not None]
    smaller = sum(scale != "paper" for scale in found)
    return f"Of {len(found)} studies {smaller} ran at the scale `reduced`; each says how that differs from the paper."


def _counted(rows: list[dict[str, Any]]) -> list[str]:
    found = told.counts(rows)
    return [str(len(rows)), *(str(found.get(verdict, "")) for verdict in told.MARKS)]


def index_page() -> str:
    sections = [
        "# The papers, reproduced\n",
        "One command runs each study below: `fedtide reproduce NAME`. Where a claim does not hold here, the numbers "
        "say so.\n",
        summary(""),
        f"{COVERED}\n",
        f"{RULES}\n",
    ]
    mapped = [name for name in study.names() if "map" in _drawn().get(name, {}).get("figures", {})]
    for name in mapped:
        sections += [f"## {study.load_study(name)[1].title}\n", _figure(name, "map")]
    sections.append("## All claims\n")
    for key, found in study.by_paper().items():
        rows = [
            [f"[{one.figure}]({key}.md#{name}), {_scale(name)}", *_cells(row)[:4]]
            for name, one in found.items()
            for row in judged(name)
        ]
        if rows:
            sections += [f"### {study.papers()[key].title}\n", table(["", *HEADINGS[:4]], rows)]
    return "\n".join(sections)


def paper_page(key: str, paper: Any) -> str:
    found = study.by_paper()[key]
    by = ", ".join(str(part) for part in (paper.authors, paper.venue, paper.year) if part)
    rows = [row for name in found for row in judged(name)]
    sections = [f"# {paper.title}\n", f"{by}\n" if by else "", f"{_prose(paper.about)}\n"]
    sections.append(f"**{told.answer(rows)}** [How that is decided](index.md).\n" if rows else "")
    for name, one in found.items():
        sections += _study(name, one)
    return "\n".join(section for section in sections if section)


def _study(name: str, one: Any) -> list[str]:
    results, rows, said = stored(name), judged(name), remarks().get(name, {})
    sections = [f"## {one.figure}: {one.title} {{ #{name} }}\n", f"{_prose(one.about)}\n"]
    if results is None:
        sections.append(f"*Not run: {said.get('not_run', 'no results are stored yet.')}*\n")
    else:
        sections += [_figure(name, figure) for figure in _drawn().get(name, {}).get("figures", {})]
    if rows:
        sections.append(table(HEADINGS, [_cells(row) for row in rows]))
    if said.get("note"):
        sections.append(f"{_prose(said['note'])}\n")
    command = f"fedtide reproduce {name} --scale {results['scale'] if results else 'reduced'}"
    sections.append(f"```sh\n{command}\n```\n")
    if results is not None:
        sections += [_how(name, one, results)]
    return sections


def _how(name: str, one: Any, results: dict[str, Any]) -> str:
    """How it was run, folded: facts, warnings, what tuning chose."""
    facts = dict(told.how(reproduction.facts(one), results))
    brief = f"{facts.pop('Scale')}. {facts['Hardware']}, {facts['Time']}."
    lines = [f"**How it was run.** {brief[0].upper()}{brief[1:]} [All numbers](data/{name}.json).\n"]
    lines += ['<details markdown="1">\n<summary>Settings</summary>\n']
    lines.append(table(["", ""], [[key, text] for key, text in facts.items() if key not in ("Hardware", "Time")]))
    lines += [f"* {warning}" for warning in told.warnings(results)] + [""]
    several = len(results["cases"]) > 1
    chosen = [
        [*([case] if several else []), label, settings, ", ".join(edges) or "–"]
        for case, label, settings, edges in told.chosen(results)
    ]
    if chosen:
        lines.append(table([*(["Case"] if several else []), "Method", "Chosen", "At the edge of its grid"], chosen))
    return "\n".join([*lines, "</details>\n"])


def _scale(name: str) -> str:
    results = stored(name)
    return results["scale"] if results else "not run"


def _cells(row: dict[str, Any]) -> list[str]:
    ours = row["ours"].replace("; ", "<br>")
    published = f"*Our question.* {row['published']}" if row["source"] == "ours" else row["published"]
    return [row["says"], published, ours, told.verdict(row).replace(" ", "\u00a0"), row["because"]]


def _figure(name: str, figure: str) -> str:
    words = _drawn()[name]["figures"][figure]
    alt = re.sub(r"[\[\]\n]", " ", words["alt"])
    lines = [
        f"![{alt}](pictures/{name}-{figure}-{layout}.svg#only-{theme}){{ .{layout} loading=lazy }}"
        for layout in ("wide", "narrow")
        for theme in ("light", "dark")
    ]
    return "\n".join(lines) + f"\n\n{words['caption']}\n{{ .caption }}\n"


def _prose(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))


def _files(name: str, drawn: dict[str, Any]) -> list[str]:
    return [f"{name}-{figure}-{layout}.svg" for figure in drawn["figures"] for layout in ("wide", "narrow")]


def _drawn() -> dict[str, Any]:
    return json.loads(DRAWN.read_text("utf-8")) if DRAWN.exists() else {}


def _digest(name: str) -> str:
    """Of all that figures depend on."""
    one = reproduction.facts(study.load_study(name)[1])
    about = [one[key] for key in ("shows", "methods", "fixed", "tune")]
    about += [[claim[key] for key in ("method", "against", "classes")] for claim in one["claims"]]
    found = json.dumps([stored(name), about], sort_keys=True)
    return hashlib.sha256((found + _code()).encode()).hexdigest()[:16]


@functools.cache
def _code() -> str:
    folder = Path(report.__file__).parent
    return "".join(path.read_text("utf-8") for pattern in CODE for path in sorted(folder.glob(pattern)))


def table(headings: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    assert all(len(row) == len(headings) for row in rows), headings
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def main() -> None:
    for name in stale():
        draw(name)
        print(f"drawn: {name}")
    for path, text in pages():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
