"""The page of a fitted fleet: what it is like, whether the model holds, what to do with it."""

import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from fedtide.files import atomic
from fedtide.fleet.advice import advice_in_words
from fedtide.fleet.diagnosis import Check, Diagnosis, Finding
from fedtide.fleet.diagnosis_words import length
from fedtide.fleet.model import Cluster, FleetModel
from fedtide.report import fleet_clock, fleet_figures, fleet_findings, svg, words
from fedtide.report.fleet_generated import generated
from fedtide.report.fleet_words import (
    EDITED,
    KINDS,
    SHORT,
    VERDICTS,
    answer,
    band_of,
    duration,
    figure_of,
    generator,
    has_day,
    kinds,
    pairs,
    said,
    seen,
    sentences,
    several,
    share,
    trust,
)
from fedtide.report.page import environment

__all__ = ["render", "sentences", "write"]

_MOST_LISTED, _MOST_NAMED = 12, 6


def render(model: FleetModel, diagnosis: Diagnosis, advice: pl.DataFrame, about: Mapping[str, Any]) -> str:
    """The page as text; `about` may hold title, folder (of the model), command and versions."""
    pictures = {
        "devices": fleet_figures.devices(model),
        "differences": fleet_figures.differences(model),
        "presence": fleet_figures.presence(model),
        "clock": fleet_clock.clock(model),
        "groups": fleet_clock.groups(model),
        "generated": generated(diagnosis),
        **{found.name: fleet_findings.finding(model, found) for found in diagnosis.findings},
    }
    return environment().get_template("fleet.html").render(
        about=about,
        title=words.clean(about.get("title") or f"A fleet: {model.source or 'its availability'}"),
        meta=_meta(model),
        answer=" ".join(answer(model)),
        trust=" ".join(trust(model, diagnosis)),
        figures={name: picture for name, picture in pictures.items() if picture is not None},
        account=_account(model),
        kinds=[_kind(model, kind, number) for kind, number in kinds(model).items()],
        least=_least(model),
        never=_never(model),
        has_day=has_day(model),
        zone=fleet_clock.zone(model),
        week=_week(model),
        pairs=pairs(model),
        clusters=[_cluster(model, c) for c in model.clusters],
        findings=[_finding(found, diagnosis) for found in diagnosis.findings],
        silent=_silent(diagnosis),
        simulated=diagnosis.simulated,
        looked=diagnosis.devices,
        several=" ".join(several(diagnosis)), edited=EDITED if diagnosis.edited else "",
        theory=[_headed(text) for text in diagnosis.theory],
        generator=generator(diagnosis),
        checks=[_check(check) for check in diagnosis.checks],
        advice=[_length(row, model) for row in advice.iter_rows(named=True)],
        advised=[said(text) for text in advice_in_words(advice)] if advice.height else [],
        use=_use(about),
        palette=[svg.LIGHT, svg.DARK],
        paper=svg.PAPER,
    )  # fmt: skip


def write(
    path: str | os.PathLike[str],
    model: FleetModel,
    diagnosis: Diagnosis,
    advice: pl.DataFrame,
    about: Mapping[str, Any],
) -> Path:
    """Writes the page; a reader finds the old file or the whole new one, never a part.

    The model is taken to lie in the page's folder unless `about` has another.
    """
    path = Path(path)
    text = render(model, diagnosis, advice, {"folder": path.parent.as_posix(), **about})
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def _meta(model: FleetModel) -> list[str]:
    rounds, devices = model.record.shape
    return [
        words.count(devices, "device"),
        duration(model),
        f"{words.count(rounds, 'round')} of {length(model.round_seconds)}",
        f"source: {words.clean(model.source)}" if model.source else "source: not named",
    ]


def _account(model: FleetModel) -> dict[str, Any]:
    """What was read: every row is used or counted among the issues."""
    found = model.account
    issues = [
        {
            "kind": words.clean(issue["kind"]),
            "count": f"{issue['count']:,}",
            "done": words.clean(issue["done"]),
            "examples": [words.short(example, 140) for example in issue.get("examples", ())],
        }
        for issue in found.get("issues", ())
    ]
    rows, used, form = (found.get(name) for name in ("rows", "used", "form"))
    text = ""
    if rows:
        text = f"{rows:,} rows{f' of {words.clean(form)}' if form else ''} were read"
        text += ", all of them used." if used == rows else f"; {used:,} are used ({share(used / rows)})."
    return {"text": text, "issues": issues, "notes": [said(note) for note in found.get("notes", ())]}


def _names(names: list[str]) -> str:
    shown = [words.short(name, 28) for name in names[:_MOST_NAMED]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _kind(model: FleetModel, kind: str, number: int) -> dict[str, str]:
    names = model.devices.filter(pl.col("kind") == kind)["device"].to_list()
    return {
        "name": kind,
        "number": f"{number:,}",
        "share": share(number / model.devices.height),
        "means": KINDS[kind],
        "names": _names(names),
    }


def _least(model: FleetModel) -> list[dict[str, str]]:
    """Those of the devices that were seen which are here least, by name."""
    table = seen(model).sort("availability", "device").head(_MOST_LISTED)
    return [
        {
            "name": words.short(row["device"], 40),
            "kind": row["kind"],
            "here": f"{row['here']:,} of {row['observed']:,}",
            "counted": words.percent(row["raw_availability"]),
            "visits": f"{row['visits']:,}",
            "availability": words.percent(row["availability"]),
            "interval": f"{100 * row['availability_low']:.1f} to {100 * row['availability_high']:.1f}",
            "correlation": f"{row['correlation']:.2f}".replace("-", "−"),
            "spread": f"{row['correlation_low']:.2f} to {row['correlation_high']:.2f}".replace("-", "−"),
        }
        for row in table.iter_rows(named=True)
    ]


def _never(model: FleetModel) -> str:
    """What the fit says of those that were never seen, and of what it cannot describe."""
    fleet, parts = model.distribution, []
    if "never" in kinds(model):
        parts.append(
            f"The share of devices that are never here at all is put at {share(fleet.never)} (standard error"
            f" {share(fleet.never_se)}): some that were not seen may only be seldom here."
        )
    if fleet.negative:
        parts.append(
            f"{words.count(fleet.negative, 'device')} {'leaves' if fleet.negative == 1 else 'leave'} sooner"
            " after coming than by chance (a negative λ, at 1%), which the fitted family does not have."
        )
    return " ".join(parts)


def _week(model: FleetModel) -> str:
    week = model.profile.weekday
    if week is None:
        return ""
    if abs(week).max() < 1e-9:
        return "Days of the week differ by no more than days of the same name do."
    return ""


def _cluster(model: FleetModel, cluster: Cluster) -> dict[str, str]:
    names = model.devices["device"]
    low, high = cluster.null
    return {
        "name": words.clean(cluster.name),
        "number": f"{len(cluster.members):,}",
        "members": _names([names[k] for k in cluster.members]),
        "correlation": f"{cluster.correlation:.2f}".replace("-", "−"),
        "null": f"{low:.2f} to {high:.2f}".replace("-", "−"),
        "coupling": words.percent(cluster.coupling, 0),
        "hours": f"{cluster.hours:.2g} h",
    }


_SHARES = {"order", "homogeneity", "week"}
_STATISTICS = {
    "order": "share of devices that reject",
    "homogeneity": "share of devices that reject",
    "week": "share of devices that reject",
    "dwell": "squared distance from constant rates",
    "day_later": "correlation a day later",
    "together": "ratio of variances",
    "together_after_clock": "ratio of variances",
}


def _finding(found: Finding, diagnosis: Diagnosis) -> dict[str, Any]:
    def number(value: float) -> str:
        if found.name in _SHARES:
            return share(value)
        return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}".replace("-", "−")

    p = words.NOTHING if found.p is None else f"{found.p:.{2 if found.p >= 0.01 else 3}f}"
    small = ""
    if found.statistic is not None and found.null is not None:
        small = (
            f"Test: {_STATISTICS.get(found.name, 'statistic')} {number(found.statistic)}; 95% of"
            f" {diagnosis.simulated:,} simulated fleets have {number(found.null[0])} to {number(found.null[1])};"
            f" p = {p}. {words.count(diagnosis.devices, 'device')}."
        )
    tone = {True: "better-text", False: "worse-text", None: ""}[found.holds]
    return {
        "name": found.name,
        "short": SHORT.get(found.name, found.name),
        "question": words.clean(found.question),
        "sentence": said(found.sentence),
        "verdict": VERDICTS[found.holds],
        "tone": tone,
        "p": p,
        "small": small,
    }


def _silent(diagnosis: Diagnosis) -> str:
    """Why the record cannot say anything, where that is one reason for all questions."""
    reasons = {found.sentence if found.holds is None else "" for found in diagnosis.findings}
    return said(reasons.pop()) if len(reasons) == 1 else ""


def _headed(text: str) -> tuple[str, str]:
    """The assumption, and what it means here."""
    head, colon, rest = words.clean(text).partition(": ")
    return (head, said(rest)) if colon else ("", said(head))


def _check(check: Check) -> dict[str, Any]:
    what = words.clean(check.words).removesuffix(" (hours)")
    return {
        "what": what[0].upper() + what[1:],
        "recorded": figure_of(check, check.recorded),
        "generated": figure_of(check, check.generated),
        "band": band_of(check),
        "inside": check.inside,
        "fitted": check.fitted,
    }


def _length(row: Mapping[str, Any], model: FleetModel) -> dict[str, Any]:
    """A row of the table of round lengths."""

    def number(name: str, text: str) -> str:
        return words.NOTHING if row[name] is None else text.format(row[name])

    return {
        "length": length(row["round_seconds"]),
        "rounds": f"{row['rounds']:,}{'' if row['enough'] else ' (few)'}",
        "a_day": number("rounds_a_day", "{:,.4g}"),
        "number": number("number", "{:,.3g}"),
        "correlation": number("correlation", "{:.2f}").replace("-", "−"),
        "stay": words.percent(row["stay"], 0),
        "away": number("away_rounds", "{:,.3g}"),
        "chosen": row["round_seconds"] == model.round_seconds,
    }


def _use(about: Mapping[str, Any]) -> dict[str, str]:
    """What to do with the model: text to copy."""
    folder = str(about.get("folder") or "my-fleet")
    return {
        "toml": f'[availability]\nname = "fleet"\npath = {json.dumps(folder, ensure_ascii=False)}',
        "recommend": f"fedtide fleet recommend {shlex.quote(folder)}",
        "made": str(about.get("command") or ""),
    }
