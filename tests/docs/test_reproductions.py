"""The pages of the reproductions agree with the stored results."""

import json
import re
from pathlib import Path

from fedtide.reproduce import results, study

ROOT = Path(__file__).resolve().parents[2]
REGENERATE = "run: python docs/generate.py"


def test_pages_and_figures_are_up_to_date(reproduce):
    assert reproduce.stale() == [], REGENERATE
    pages = dict(reproduce.pages())
    assert [path.name for path, text in pages.items() if path.read_text("utf-8") != text] == [], REGENERATE
    nav = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert [path.name for path in pages if f"reproductions/{path.name}" not in nav] == []


def test_every_claim_has_a_row_with_its_verdict(reproduce):
    summary = (reproduce.FOLDER / "index.md").read_text("utf-8")
    for paper, found in study.by_paper().items():
        page = (reproduce.FOLDER / f"{paper}.md").read_text("utf-8")
        for name, one in found.items():
            assert f"{{ #{name} }}" in page
            for claim in one.claims:
                claimed, published = (text.replace("|", "\\|") for text in (claim.says, claim.published))
                for text in (page, summary):
                    assert any(claimed in row and f"{published} |" in row for row in text.splitlines()), claim.says


def test_stored_results_are_those_of_packaged_studies_and_small(reproduce, tmp_path):
    paths = sorted((reproduce.FOLDER / "data").glob("*.json"))
    not_run = {name for name, remark in reproduce.remarks().items() if remark.not_run}
    assert {path.stem for path in paths} == set(study.names()) - not_run
    for path in paths:
        text = path.read_text("utf-8")
        found = results.read(path)
        assert found.name == path.stem
        assert found.write(tmp_path / path.name, separators=(",", ":")).read_text("utf-8") == text
        assert path.stat().st_size < 600_000
        assert '"/' not in text  # names of files without folders


def test_the_readme_has_the_counts_of_the_table(reproduce):
    (row,) = re.findall(r"\*\*All claims of papers\*\* \|([^\n]*)", (ROOT / "docs" / "index.md").read_text("utf-8"))
    total, holds, *_, refuted, _ = [int(cell) if cell.strip() else 0 for cell in row.strip(" |").split("|")]
    stated = re.search(r"(\d+) of (\d+) hold, (\d+) do\s+not", (ROOT / "README.md").read_text("utf-8"))
    assert stated is not None
    assert [int(number) for number in stated.groups()] == [holds, total, refuted]


def test_stored_results_were_run_as_the_studies_say(reproduce):
    for name in study.names():
        found = reproduce.stored(name)
        if found is None:
            continue
        planned = study.plan(name, found.scale)
        assert found.draws == planned.draws, name
        assert [case.label for case in found.cases] == [panel.label for panel in planned.panels]
        for case, panel in zip(found.cases, planned.panels, strict=True):
            config = panel.config
            assert (case.rounds[-1], case.seeds) == (config.run.rounds, config.run.seeds), name
            assert case.local == json.loads(json.dumps(config.local.model_dump(exclude_none=True))), name
            written = [m.model_dump(exclude_unset=True) for m in config.methods]
            written = [{key: value for key, value in one.items() if key != "tune"} for one in written]
            assert [m.written for m in case.methods] == json.loads(json.dumps(written)), name
            trials = {m.tuned.trials for m in case.methods if m.tuned}
            assert len(trials) <= 1, name  # the same budget for each method
            extended = planned.study.extensions > 0  # a grid may be extended
            assert all(n >= config.tune.trials if extended else n == config.tune.trials for n in trials), name
    for path in reproduce.PICTURES.glob("*.svg"):
        assert path.stat().st_size < 100_000, path.name


def test_a_study_without_results_says_so(reproduce, monkeypatch):
    name = study.names()[0]
    reproduce.judged.cache_clear()
    monkeypatch.setattr(reproduce, "stored", lambda name: None)
    monkeypatch.setattr(reproduce, "remarks", lambda: {name: reproduce.Remarks(not_run="The trace is not public.")})
    page = "\n".join(reproduce._study(name, study.load_study(name)[1]))
    assert "*Not run: The trace is not public.*" in page
    assert page.count("○\u00a0not\u00a0tested | The trace is not public. |") == len(study.load_study(name)[1].claims)
    reproduce.judged.cache_clear()
