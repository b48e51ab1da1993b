"""The page of a fitted fleet: what it is like, whether the model holds, what to do with it."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

import polars as pl

from fedtide import text
from fedtide.fleet.advice import advice_in_words
from fedtide.fleet.diagnosis.diagnose import too_little
from fedtide.fleet.diagnosis.findings import Diagnosis
from fedtide.fleet.model import FleetModel
from fedtide.fleet.page import clock, figures, findings, words
from fedtide.report.frame import page

_MOST_LISTED, _MOST_NAMED = 12, 6


def render(model: FleetModel, diagnosis: Diagnosis, advice: pl.DataFrame, about: Mapping[str, Any]) -> str:
    """The page as text; `about` may hold title, folder (of the model), command and versions."""
    pictures = {
        "devices": figures.devices(model),
        "differences": figures.differences(model),
        "presence": figures.presence(model),
        "clock": clock.clock(model),
        "groups": clock.groups(model),
        "generated": findings.generated(diagnosis),
        **{found.name: findings.finding(model, found) for found in diagnosis.findings},
    }
    rounds, devices = model.record.shape
    folder = str(about.get("folder") or "my-fleet")
    silent = bool(diagnosis.findings) and too_little(rounds, diagnosis.devices) is not None
    return page(
        "fedtide.fleet.page",
        "fleet.html",
        about=about,
        title=text.clean(about.get("title") or f"A fleet: {model.source or 'its availability'}"),
        meta=[
            text.count(devices, "device"),
            words.observed(model),
            f"{text.count(rounds, 'round')} of {text.duration(model.round_seconds)}",
            f"source: {text.clean(model.source)}" if model.source else "source: not named",
        ],
        answer=words.answer(model),
        figures=pictures,
        text=text,
        words=words,
        model=model,
        names=lambda kind: _names(model.devices.filter(pl.col("kind") == kind)),
        members=lambda cluster: _names(model.devices[list(cluster.members)]),
        least=words.judged(model).sort("availability", "device").head(_MOST_LISTED).to_dicts(),
        diagnosis=diagnosis,
        silent=diagnosis.findings[0].sentence if silent else "",  # one reason for all questions
        advice=advice.to_dicts(),
        advised=advice_in_words(advice) if advice.height else [],
        folder=shlex.quote(folder),
        toml=f'[availability]\nname = "fleet"\npath = {json.dumps(folder, ensure_ascii=False)}',
    )


def _names(devices: pl.DataFrame) -> str:
    shown = [text.short(name, 28) for name in devices["device"].head(_MOST_NAMED)]
    more = devices.height - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")
