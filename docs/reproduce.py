"""Generates the pages of docs/reproductions from stored results and the packaged studies; part of `docs/generate.py`.

    python docs/reproduce.py               # these pages and figures only

    docs/reproductions/data/NAME.json      the results.json of `fedtide reproduce NAME`
    docs/reproductions/coverage.toml       every figure and table of the papers, and the study that reproduces it
    docs/reproductions/why.toml            remarks on the results, by study

        [ca_fed_fig1a]
        note = "A paragraph below the table of claims."
        claims = {1 = "An explanation of the verdict on the first claim."}
        not_run = "The reason why there are no results."

Figures are drawn again if their data or code change; pictures/drawn.json has a digest of both.
"""

import functools
import hashlib
import html
import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from fedtide import report
from fedtide import reproduce as package
from fedtide.files import write_text
from fedtide.report.picture import Picture
from fedtide.reproduce import results as results_module
from fedtide.reproduce import study
from fedtide.reproduce.claims import Judged, judge
from fedtide.reproduce.page import page as reproduction
from fedtide.reproduce.page import words
from fedtide.reproduce.page.figures import pictures, standalone
from fedtide.reproduce.results import MeasureName, Results
from fedtide.reproduce.study import Paper, Study

FOLDER = Path(__file__).resolve().parent / "reproductions"
PICTURES = FOLDER / "pictures"
DRAWN = PICTURES / "drawn.json"
CODE = [  # that figures depend on
    *(Path(report.__file__).with_name(f"{name}.py") for name in ("curves", "maps", "picture", "svg")),
    *(Path(package.__file__).parent / "page" / f"{name}.py"
      for name in ("activity", "best", "curves", "ends", "estimates", "figures", "heat", "inclusion", "maps", "panels",
                   "weights")),
    Path(results_module.__file__),
]  # fmt: skip
COVERAGE = """\
Every figure and table of the papers, the study that reproduces it, what was run and what deviates from the publication.
What was run is read from the stored results; for runs that are smaller than published, the last column ends with the
difference."""
HEADINGS = ["Claim", "Published", "Ours (95% interval)", "Verdict", "Reason"]
RULES = """\
**How claims are tested.** All methods of a study see the same data, availability, minibatches and initial models, so
every difference is paired. The statistic and the threshold of each claim are part of the study's file. A claim
**holds** if the whole interval of the difference is on its side of the threshold, **does not hold** if none of the
interval is, and is **undecided** otherwise. If a claim makes several comparisons, all of them must hold; if only some
hold and none is refuted, the claim holds **partly**. A claim that holds is **smaller than published** if its interval
is closer to 0 than the published size. Claims of a paper are **not tested** where other data or another network stand
in for the published ones. Only claims that a paper or its code makes count among its claims; our own questions are
marked and counted separately. Intervals are Student's t over n data draws (or n seeds if there is one draw), with a
joint level of 95 % for all comparisons of a claim.

**How methods are tuned.** Every tuned method of a study has the same number of trials, selected on validation data of
one or more data draws (`tuning_draws` in the study's file) that are not used for comparisons. If a chosen value is at
the edge of a grid and the study has `extensions`, the grid is extended there, for all methods alike; values that remain
at an edge are listed with the study. Published settings are separate rows. The intervals are conditional on the chosen
settings and do not include the variation of tuning. They are not adjusted for the number of claims, so some verdicts
will be wrong."""


class Remarks(BaseModel):
    """Remarks on the results of a study."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    note: str = ""
    claims: dict[int, str] = {}
    not_run: str = ""


class Row(BaseModel):
    """A figure or table of a paper: a row of coverage.toml."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    paper: str
    figure: str
    shows: str
    study: str = ""
    why: str = ""  # there is no study
    cases: tuple[str, ...] = ()
    measure: MeasureName | None = None
    deviates: str = ""


@functools.cache
def stored(name: str) -> Results | None:
    """The stored results of a study, with the current description of their scale; None if there are none."""
    path = FOLDER / "data" / f"{name}.json"
    if not path.exists():
        return None
    results = results_module.read(path)
    note = study.load_study(name)[1].scales[results.scale].note
    return results.model_copy(update={"note": note})


@functools.cache
def remarks() -> dict[str, Remarks]:
    tables = tomllib.loads((FOLDER / "why.toml").read_text("utf-8"))
    return {name: Remarks.model_validate(table) for name, table in tables.items()}


@functools.cache
def covered() -> tuple[Row, ...]:
    """Every figure and table of the papers."""
    written = tomllib.loads((FOLDER / "coverage.toml").read_text("utf-8"))["rows"]
    return tuple(Row.model_validate(row) for row in written)


@functools.cache
def judged(name: str) -> list[Judged]:
    """The study's claims with their verdicts."""
    return judge(study.load_study(name)[1], stored(name))


def why(name: str, number: int, one: Judged) -> str:
    """The reasons for a verdict, and remarks on it."""
    remark = remarks().get(name, Remarks())
    if stored(name) is None:
        return remark.not_run or "Not run yet."
    return " ".join(filter(None, (words.because(one), remark.claims.get(number, ""))))


def stale() -> list[str]:
    """Studies whose figures are missing, or were drawn from other data or by other code."""
    drawn = _drawn()
    files = {path.name for path in PICTURES.glob("*.svg")}
    return [
        name
        for name in study.names()
        if stored(name) is not None
        and (name not in drawn or drawn[name]["from"] != _digest(name) or not set(_files(name, drawn[name])) <= files)
    ]


def draw(name: str) -> None:
    """Draws a study's figures, wide and narrow."""
    results = stored(name)
    assert results is not None
    figures = pictures(study.load_study(name)[1], results)
    PICTURES.mkdir(parents=True, exist_ok=True)
    _write_pictures(name, figures, PICTURES)
    drawn = _drawn()
    drawn[name] = {
        "from": _digest(name),
        "figures": {figure: {"alt": p.alt, "caption": p.caption} for figure, p in figures.items()},
    }
    known = {key: drawn[key] for key in study.names() if key in drawn and stored(key) is not None}
    DRAWN.write_text(json.dumps(known, ensure_ascii=False, indent=1) + "\n", "utf-8")
    wanted = {file for key, one in known.items() for file in _files(key, one)}
    for path in PICTURES.glob("*.svg"):
        if path.name not in wanted:
            path.unlink()


def write_all(name: str, folder: Path) -> None:
    """Writes the page of a study, as `fedtide reproduce` does, and its figures to a folder."""
    one, results = study.load_study(name)[1], stored(name)
    assert results is not None
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / f"{name}.html", reproduction.render(one, results, judge(one, results)))
    _write_pictures(name, pictures(one, results), folder)


def _write_pictures(name: str, drawn: dict[str, Picture], folder: Path) -> None:
    for figure, picture in drawn.items():
        for layout, text in (("wide", picture.wide), ("narrow", picture.narrow)):
            (folder / f"{name}-{figure}-{layout}.svg").write_text(standalone(text), "utf-8")


def pages() -> Iterator[tuple[Path, str]]:
    """Yields every page with its text."""
    yield FOLDER / "index.md", index_page()
    for key, paper in study.papers().items():
        yield FOLDER / f"{key}.md", paper_page(key, paper)


def summary(folder: str) -> str:
    """A table of verdicts by paper; `folder` is the folder of the pages."""
    rows, every, ours = [], [], []
    for key, studies in study.by_paper().items():
        own = [one for name in studies for one in judged(name)]
        ours += [one for one in own if one.claim.source == "ours"]
        theirs = [one for one in own if one.claim.source != "ours"]
        if theirs:
            rows.append([f"[{study.papers()[key].title}]({folder}{key}.md)", *_counted(theirs)])
        every += theirs
    rows.append(["**All claims of papers**", *_counted(every)])
    rows.append([f"Our own questions, including those [beyond the papers]({folder}beyond.md)", *_counted(ours)])
    counts = table(["", "Claims", *(f"{mark} {verdict}" for verdict, mark in words.MARKS.items())], rows)
    return f"{counts}\n{_scales()}\n"


def _scales() -> str:
    """A sentence on the scales of the studies."""
    scales = [results.scale for name in study.names() if (results := stored(name)) is not None]
    smaller = sum(scale != "paper" for scale in scales)
    return (
        f"{smaller} of {len(scales)} studies ran at the scale `reduced`; each states how that differs from the paper."
    )


def _counted(claims: Sequence[Judged]) -> list[str]:
    counts = words.counts(claims)
    return [str(len(claims)), *(str(counts.get(verdict, "")) for verdict in words.MARKS)]


def coverage(key: str) -> str:
    """A table of the figures and tables of a paper."""
    rows = []
    for row in covered():
        if row.paper == key:
            link = f"[`{row.study}`]({key}.md#{row.study})" if row.study else "–"
            rows.append([row.figure, row.shows, link, *_run(row)])
    return table(["Figure", "Shows", "Study", "What was run", "What deviates"], rows)


def _run(row: Row) -> tuple[str, str]:
    """What was run for a figure, from the stored results, and how it deviates from the publication."""
    results, deviates = stored(row.study) if row.study else None, _prose(row.deviates or row.why)
    if results is None:
        return "not run", " ".join(filter(None, (deviates, remarks().get(row.study, Remarks()).not_run)))
    cases = [case for case in results.cases if not row.cases or case.label in row.cases]
    if not cases:
        return f"not run at the scale `{results.scale}`", deviates
    if row.measure and all(m.values(row.measure) is None for case in cases for m in case.methods):
        measure = row.measure.replace("_", " ")
        return f"not measured: the stored run at the scale `{results.scale}` has no {measure}", deviates
    facts = words.how(results.model_copy(update={"cases": cases}))
    data = facts["Data"].rpartition(", ")[0]  # without the number of parameters
    ran = f"`{results.scale}`: {data}; {facts['Runs']}; {facts['Rounds']} rounds"
    if results.scale == "paper":
        return ran, " ".join(filter(None, (deviates, study.load_study(row.study)[1].scales["paper"].stand_in)))
    return ran, f"{deviates} Reduced: {results.note}."


def index_page() -> str:
    sections = [
        "# The papers, reproduced\n",
        "Each study below is run by one command, `fedtide reproduce NAME`. Claims that do not hold are reported with "
        "their numbers.\n",
        summary(""),
        f"{RULES}\n",
        "## Coverage\n",
        f"{COVERAGE}\n",
    ]
    for key, paper in study.papers().items():
        if any(row.paper == key for row in covered()):
            sections += [f"### Figures of {paper.title}\n", coverage(key)]
    mapped = [name for name in study.names() if "map" in _drawn().get(name, {}).get("figures", {})]
    for name in mapped:
        sections += [f"## {study.load_study(name)[1].title}\n", _figure(name, "map")]
    sections.append("## All claims\n")
    for key, studies in study.by_paper().items():
        rows = [
            [f"[{one.figure}]({key}.md#{name}), {_scale(name)}", *cells[:4]]
            for name, one in studies.items()
            for cells in _claims(name)
        ]
        if rows:
            sections += [f"### {study.papers()[key].title}\n", table(["Study, scale", *HEADINGS[:4]], rows)]
    return "\n".join(sections)


def paper_page(key: str, paper: Paper) -> str:
    studies = study.by_paper()[key]
    by = ", ".join(str(part) for part in (paper.authors, paper.venue, paper.year) if part)
    claims = [one for name in studies for one in judged(name)]
    sections = [f"# {paper.title}\n", f"{by}\n" if by else "", f"{_prose(paper.about)}\n"]
    sections.append(f"**{words.answer(claims)}** [How claims are tested](index.md).\n" if claims else "")
    for name, one in studies.items():
        sections += _study(name, one)
    return "\n".join(section for section in sections if section)


def _study(name: str, one: Study) -> list[str]:
    results, remark = stored(name), remarks().get(name, Remarks())
    sections = [f"## {one.figure}: {one.title} {{ #{name} }}\n", f"{_prose(one.about)}\n"]
    if results is None:
        sections.append(f"*Not run: {remark.not_run or 'no results are stored yet.'}*\n")
    else:
        sections += [_figure(name, figure) for figure in _drawn().get(name, {}).get("figures", {})]
    if one.claims:
        sections += [table(HEADINGS, _claims(name)), *_comparisons(name)]
    if remark.note:
        sections.append(f"{_prose(remark.note)}\n")
    command = f"fedtide reproduce {name} --scale {results.scale if results else 'reduced'}"
    sections.append(f"```sh\n{command}\n```\n")
    if results is not None:
        sections += [_how(name, results)]
    return sections


def _comparisons(name: str) -> Iterator[str]:
    """Collapsed tables of the comparisons of claims that have too many to list them in the claim's row."""
    for one in judged(name):
        if len(one.comparisons) > len(words.ours(one)):
            rows = [[c.case, c.against, words.comparison(one.claim, c), c.outcome] for c in one.comparisons]
            inside = table(["Case", "Compared with", HEADINGS[2], "Outcome"], rows)
            summary = f"All {len(rows)} comparisons: {one.claim.says}"
            yield f'<details markdown="1">\n<summary>{html.escape(summary)}</summary>\n\n{inside}\n</details>\n'


def _how(name: str, results: Results) -> str:
    """How the study was run: a line, and collapsed settings, warnings and chosen settings."""
    facts = words.how(results)
    brief = f"{facts.pop('Scale')}. {facts.pop('Hardware')}, {facts.pop('Time')}."
    lines = [f"**How it was run.** {brief[0].upper()}{brief[1:]} [All numbers](data/{name}.json).\n"]
    lines += ['<details markdown="1">\n<summary>Settings</summary>\n']
    lines.append(table(["", ""], [[key, text] for key, text in facts.items()]))
    lines += [f"* {warning}" for warning in words.warnings(results)] + [""]
    headings, chosen = words.chosen(results)
    if chosen:
        lines.append(table(headings, chosen))
    return "\n".join([*lines, "</details>\n"])


def _scale(name: str) -> str:
    results = stored(name)
    return results.scale if results else "not run"


def _claims(name: str) -> list[list[str]]:
    """A row under `HEADINGS` for each claim of a study."""
    rows = []
    for number, one in enumerate(judged(name), 1):
        claim = one.claim
        published = f"*Our question.* {claim.published}" if claim.source == "ours" else claim.published
        verdict = words.verdict(one).replace(" ", "\u00a0")
        rows.append([claim.says, published, "<br>".join(words.ours(one)), verdict, why(name, number, one)])
    return rows


def _figure(name: str, figure: str) -> str:
    drawn = _drawn()[name]["figures"][figure]
    alt = re.sub(r"[\[\]\n]", " ", drawn["alt"])
    lines = [
        f"![{alt}](pictures/{name}-{figure}-{layout}.svg#only-{theme}){{ .{layout} loading=lazy }}"
        for layout in ("wide", "narrow")
        for theme in ("light", "dark")
    ]
    return "\n".join(lines) + f"\n\n{drawn['caption']}\n{{ .caption }}\n"


def _prose(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))


def _files(name: str, drawn: dict[str, Any]) -> list[str]:
    return [f"{name}-{figure}-{layout}.svg" for figure in drawn["figures"] for layout in ("wide", "narrow")]


def _drawn() -> dict[str, Any]:
    return json.loads(DRAWN.read_text("utf-8")) if DRAWN.exists() else {}


def _digest(name: str) -> str:
    """A digest of everything on which the figures of a study depend."""
    one, results = study.load_study(name)[1], stored(name)
    assert results is not None
    fields = {"shows", "axis", "best", "grid", "cases", "methods", "fixed", "tune"}
    about = one.model_dump(mode="json", include=fields)
    about["claims"] = [claim.model_dump(mode="json", include={"method", "against", "classes"}) for claim in one.claims]
    text = json.dumps([results.model_dump(exclude_unset=True), about], sort_keys=True) + _code()
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@functools.cache
def _code() -> str:
    return "".join(path.read_text("utf-8") for path in CODE)


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
