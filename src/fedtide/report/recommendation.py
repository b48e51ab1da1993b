"""The page of `fedtide fleet recommend`: the answer in words, the numbers behind it, and when it would change."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from markupsafe import Markup

from fedtide.files import atomic
from fedtide.report import recommendation_figures as figures
from fedtide.report import recommendation_notes as notes
from fedtide.report import recommendation_words as told
from fedtide.report import svg, words
from fedtide.report.curves import learning
from fedtide.report.page import environment
from fedtide.report.recommendation_changes import changes
from fedtide.report.recommendation_phrases import untold
from fedtide.report.tuning import values_in_words

_MOST_LISTED = 25

VERDICTS = {
    "recommended": "use\u00a0this",
    "level": "level",
    "untold": "cannot be told apart",
    "behind": "falls behind",
    "behind the best": "falls behind {best}",
    "behind there": "falls behind on generated fleets",
    "refused": "refused",
    "below the floor": "below the floor",
    "diverged": "diverged",
    "not firm": "in question",
}


def render(about: Mapping[str, Any], rounds: pl.DataFrame, devices: pl.DataFrame) -> str:
    """The page as text, from `Recommendation`'s data and tables."""
    reference = about["verdict"]["reference"]
    far = figures.far(about)
    pictures = {} if reference is None else {
        "forest": figures.forest(about),
        "learning": learning(rounds.filter(~pl.col("method").is_in(far)), reference),
        "served": figures.served(about, devices),
    }  # fmt: skip
    first, *rest = told.lead(about)
    fleet = about["fleet"]
    return environment().get_template("recommendation.html").render(
        about=about,
        title=f"Which method for {words.clean(fleet['source']) or 'this fleet'}?",
        meta=_meta(about),
        answer=Markup("<strong>{}</strong> {}").format(first, " ".join(rest)),
        besides=told.besides(about),
        figures={name: picture for name, picture in pictures.items() if picture is not None},
        kind=about["kind"],
        reference=None if reference is None else words.clean(reference),
        firm=about["verdict"]["recommended"] is not None,
        rows=_rows(about, far),
        far=[words.clean(name) for name in far],
        refusals=[(words.clean(row["method"]), row["refused"]) for row in about["methods"] if row["refused"]],
        worst=[_device(row) for row in about["served_worst"][:_MOST_LISTED]],
        more=max(0, len(about["served_worst"]) - _MOST_LISTED),
        never=[words.clean(name) for name in fleet["never"]],
        brief=[words.clean(name) for name in fleet["brief"]],
        most=_MOST_LISTED,
        changes=changes(about),
        unknown=notes.unknown(about),
        how=notes.how(about),
        limits=notes.limits(about),
        warnings=[words.clean(text) for text in about["warnings"]],
        palette=[svg.LIGHT, svg.DARK],
        paper=svg.PAPER,
    )  # fmt: skip


def write(path: str | os.PathLike[str], about: Mapping[str, Any], rounds: pl.DataFrame, devices: pl.DataFrame) -> Path:
    """Writes the page; a reader finds the old file or the whole new one, never a part."""
    path, text = Path(path), render(about, rounds, devices)
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def summary(about: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """For the terminal: method, on the record, on generated fleets, against the reference, worst decile, verdict."""
    columns = ("recorded", "generated", "difference", "worst")
    return [(r["name"], *(r[column]["text"] for column in columns), r["verdict"]) for r in _rows(about, [])]


def _rows(about: Mapping[str, Any], far: list[str]) -> list[dict[str, Any]]:
    """The recommended first, then from the best to the worst on the record; each with the colour of its curve."""
    shown = [row["method"] for row in about["methods"] if row["method"] not in far]
    sign = -1 if about["kind"] == "accuracy" else 1

    def place(row: Mapping[str, Any]) -> tuple[bool, bool, float]:
        mean = row["recorded"]["mean"]
        return row["verdict"] != "recommended", mean is None, sign * (mean or 0.0)

    order = sorted(about["methods"], key=place)
    return [_row(row, about, shown.index(row["method"]) if row["method"] in shown else None) for row in order]


def _meta(about: Mapping[str, Any]) -> list[str]:
    fleet = about["fleet"]
    return [
        words.count(len(about["methods"]), "method"),
        f"{words.count(fleet['used'], 'device')} of {fleet['devices']:,}",
        words.count(about["rounds"], "round"),
        words.count(about["seeds"], "seed"),
        f"problem: {words.clean(about['problem']['name'])}{' (a stand-in)' if about['problem']['stand_in'] else ''}",
    ]


def _row(row: Mapping[str, Any], about: Mapping[str, Any], index: int | None) -> dict[str, Any]:
    kind = about["kind"]
    is_reference = row["method"] == about["verdict"]["reference"]
    gap = row["recorded"]["difference"]
    difference = {"text": "–", "spread": None}
    if gap is not None and gap["mean"] is not None and not is_reference:
        spread = (
            None if gap["low"] is None else f"{words.change(kind, gap['low'])} to {words.change(kind, gap['high'])}"
        )
        difference = {"text": words.change(kind, gap["mean"]), "spread": spread}
    return {
        "name": words.clean(row["method"]),
        "index": index,
        "recorded": _level(kind, row["recorded"]),
        "generated": _level(kind, row["generated"]),
        "difference": difference,
        "worst": _worst(row["recorded"]),
        "client": "–" if not row["client_bytes"] else _unbroken(notes.readable(row["client_bytes"])),
        "server": _unbroken(notes.readable(row["server_bytes"])),
        "messages": row["extra_messages"] or "–",
        "verdict": _verdict(row, about),
        "chosen": row["verdict"] == "recommended",
        "settings": values_in_words(row["chosen"]),
        "summary": row["summary"],
    }


def _verdict(row: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    said = VERDICTS[row["verdict"]].format(best=words.short(about["verdict"]["best"], 12))
    open_here = row["verdict"] == "behind there" and untold(row["recorded"]["difference"], notes.margin(about))
    return f"{said}; cannot be told apart on the record" if open_here else said


def _level(kind: Any, found: Mapping[str, Any]) -> dict[str, Any]:
    spread = None if found["low"] is None else words.spread(kind, found["low"], found["high"])
    return {"text": words.value(kind, found["mean"]), "spread": spread}


def _worst(found: Mapping[str, Any]) -> dict[str, Any]:
    low, high = found["worst_low"], found["worst_high"]
    return {
        "text": words.percent(found["worst_decile"]),
        "spread": None if low is None else words.spread("accuracy", low, high),
    }


def _device(row: Mapping[str, Any]) -> dict[str, str]:
    return {
        "device": words.clean(row["device"]),
        "kind": row["kind"],
        "there": words.percent(row["there"]),
        "correlation": f"{row['correlation']:.2f}".replace("-", "−") if row["correlation"] is not None else "–",
        "accuracy": words.percent(row["accuracy"]),
        "included": words.percent(row["included"]),
    }


def _unbroken(text: str) -> str:
    return text.replace(" ", "\u00a0")
