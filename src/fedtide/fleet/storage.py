"""The fitted fleet on disk: `fleet.toml` for people, `devices.parquet` for what is one row a device."""

import math
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fedtide.errors import FedtideError, InvalidInput
from fedtide.files import atomic
from fedtide.fleet.model import MOST_BOUNDS, Cluster, Distribution, FleetModel, Habits, Lengths, Profile
from fedtide.fleet.waves import FURTHEST, HABIT, HARMONICS
from fedtide.fleet.written import FORMAT, TABLES, Written, list_in, number_in
from fedtide.tomls import dumps

TOML, DEVICES = "fleet.toml", "devices.parquet"
_NUMBERS = (
    "observed", "here", "visits", "off_off", "off_on", "on_off", "on_on", "availability", "availability_se",
    "availability_low", "availability_high", "correlation", "correlation_se", "correlation_low", "correlation_high",
    "hours", "on_given_on", "on_given_on_se", "on_given_off", "on_given_off_se", "raw_availability", "raw_correlation",
)  # fmt: skip
_FURTHEST = 200_000_000_000  # seconds from 1970: calendars end in the year 9999
_LONGEST = 1e6  # hours of a run
_NULLABLE = ("raw_availability", "raw_correlation")


def save_model(model: FleetModel, folder: Path | str) -> Path:
    """Writes both files, each whole or not at all; returns the TOML's path."""
    folder = Path(folder)
    record = pl.Series("record", np.ascontiguousarray(model.record.T)).cast(pl.List(pl.Int8))
    with atomic(folder / DEVICES) as temporary:
        model.devices.with_columns(record).write_parquet(temporary)
    with atomic(folder / TOML) as temporary:
        temporary.write_text(_text(model), encoding="utf-8")
    return folder / TOML


def load_model(path: Path | str) -> FleetModel:
    """The model of a folder (or of the TOML in it), checked: a person may have edited the TOML."""
    path = Path(path)
    path = path if path.suffix == ".toml" else path / TOML
    try:
        written = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        hint = "; fedtide fleet fit writes one" if isinstance(error, FileNotFoundError) else ""
        raise FedtideError(f"{path}: {error.strerror or error}{hint}") from error
    except ValueError as error:  # also text that is not UTF-8
        raise FedtideError(f"{path}: not readable as TOML: {str(error).splitlines()[0]}") from error
    try:
        return _model(Written(written), path.parent / DEVICES)
    except InvalidInput as error:
        raise FedtideError(f"{path}: {error}") from error


def _text(model: FleetModel) -> str:
    days = len(model.record) * model.round_seconds / 86_400
    d, p = model.distribution, model.profile
    zone = {} if model.zone is None else {"zone": model.zone}
    rounds = {"seconds": model.round_seconds, "count": len(model.record), "devices": len(model.devices)}
    weekday = {} if p.weekday is None else {"weekday": _short(p.weekday)}
    pairs = {"correlation": model.pair_correlation[0], "null": model.pair_correlation[1:]}
    pairs |= {"with_clock": model.pair_correlation_with_clock}
    clusters = [{k: v for k, v in _numbers(c._asdict()).items() if k != "members"} for c in model.clusters]
    sections = [
        (
            f"A fleet, fitted: {len(model.devices)} devices, {days:.1f} days; they are in {DEVICES} beside this file.\n"
            'In a configuration: [availability] name = "fleet", path = this folder. Numbers may be edited: what is\n'
            "drawn from the fleet follows them.",
            {"format": FORMAT, "source": model.source},
        ),
        (
            "The record: length of a round, number of rounds, when round 0 begins (seconds since 1970, or of the log's"
            " own\nclock where there is no zone), and the zone in which days are counted.",
            {"rounds": {**rounds, "start": model.start, **zone}},
        ),
        (
            "How often devices are there: π ~ Beta(a, b), and a share is never there. _se are standard errors.\n"
            "negative: devices that alternate (negative correlation, at 1 %), which chains of this kind cannot.",
            {"availability": _numbers({k: getattr(d, k) for k in TABLES["availability"]})},
        ),
        (
            "For how long: relaxation time τ ~ lognormal(median hours, σ), independent of π; λ = exp(−round / τ).",
            {
                "persistence": _numbers(
                    {"hours": d.hours[0], "hours_se": d.hours_se[0], "sigma": d.hours[1], "sigma_se": d.hours_se[1]}
                )
            },
        ),
        (
            "The shared clock: P(there) = π (1 + s d), 1 + d = (1 + hour)(1 + weekday).\n"
            "hour: at the middles of hours; weekday: from Monday (absent where the record is too short);\n"
            "share: what was counted, by hour.",
            {"profile": {"hour": _short(p.hour), **weekday, "share": _short(p.share), "share_se": _short(p.share_se)}},
        ),
        (
            "Mean signed correlation of pairs of devices, clock removed, and 95 % of it for independent devices.\n"
            "with_clock: the same before the clock is removed.",
            {"pairs": _numbers(pairs)},
        ),
    ]
    if model.habits:
        words = (
            "Devices' own days: log odds of being there go up and down 1, 2, 3 and 4 times a day, by waves with cosines"
            "\nand sines of N(0, sigma²), N(0, (sigma/2)²), …: sigma is for fleets of another size; these devices'"
            "\nown waves are in the column `habit`. Without this table all follow the same clock."
        )
        sections.append((words, {"habits": _numbers(model.habits._asdict())}))
    runs = {"stays": model.stays, "absences": model.absences}
    runs = {name: _numbers(found._asdict()) for name, found in runs.items() if found}
    if runs:
        words = (
            "How long stays and absences of a typical device last, where they are not a chain's: share[i] of them for"
            "\nhours[i] to hours[i + 1]. A device has the same lengths in other proportions, with the mean that follows"
            "\nfrom its π and τ; without these tables its runs are geometric."
        )
        sections.append((words, runs))
    if clusters:
        words = (
            "Devices that move together, beyond the clock; members are in the column `cluster`, from 0. coupling: share"
            "\nof the latent variance that is common; hours: how long what is common lasts."
        )
        sections.append((words, {"clusters": clusters}))
    sections.append(("What became of the log's rows.", {"account": model.account}))
    blocks = ("\n".join([*(f"# {line}" for line in words.split("\n")), dumps(table)]) for words, table in sections)
    return "\n".join(blocks)


def _short(values: np.ndarray) -> list[float]:
    return [_rounded(float(v)) for v in values]


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


def _numbers(table: dict[str, Any]) -> dict[str, Any]:
    """With floats of six digits: more are noise to a reader."""

    def plain(value: Any) -> Any:
        if isinstance(value, tuple):
            return [plain(v) for v in value]
        return _rounded(value) if isinstance(value, float) else value

    return {key: plain(value) for key, value in table.items()}


def _model(written: Written, path: Path) -> FleetModel:
    least = 1e-6
    beta = written.numbers("availability", "beta", 2, least)
    errors = written.numbers("availability", "beta_se", 2, 0)
    distribution = Distribution(
        (beta[0], beta[1]),
        (errors[0], errors[1]),
        (written.number("persistence", "hours", least), written.number("persistence", "sigma", 0)),
        (written.number("persistence", "hours_se", 0), written.number("persistence", "sigma_se", 0)),
        written.number("availability", "never", 0, 1),
        written.number("availability", "never_se", 0),
        written.number("availability", "negative", 0, whole=True),
    )
    weekday = np.array(written.numbers("profile", "weekday", 7, -1, 6)) if written.has("profile", "weekday") else None
    hour = np.array(written.numbers("profile", "hour", 24, -1, 23))
    for field, values in (("profile.hour", hour), ("profile.weekday", weekday)):
        if values is not None and (values == -1).all():
            raise InvalidInput(field, values.tolist(), "above −1 somewhere, or nobody is ever there")
    null = written.numbers("pairs", "null", 2, -1, 1)
    seconds, rounds = (
        written.number("rounds", "seconds", 1, whole=True),
        written.number("rounds", "count", 1, whole=True),
    )
    devices = _devices(path, written.number("rounds", "devices", 1, whole=True), rounds, len(written.clusters))
    record = np.ascontiguousarray(devices["record"].list.explode().to_numpy().reshape(len(devices), rounds).T)
    if not np.isin(np.unique(record), (-1, 0, 1)).all():
        raise FedtideError(f"{path}: record holds other numbers than −1, 0 and 1")
    _same_rounds(devices, seconds, path)
    membership, habits = devices["cluster"].to_numpy(), _habits(written)
    stays, absences = _lengths(written, "stays"), _lengths(written, "absences")
    if (stays is None) != (absences is None):
        missing = "absences" if absences is None else "stays"
        raise InvalidInput(missing, None, "a table where the other of stays and absences is one")
    return FleetModel(
        source=written.source,
        devices=devices.drop("record", *([] if habits else [HABIT]), strict=False),
        record=record,
        round_seconds=seconds,
        start=written.number("rounds", "start", -_FURTHEST, _FURTHEST, whole=True),
        zone=_zone(written.text("rounds", "zone")) if written.has("rounds", "zone") else None,
        distribution=distribution,
        profile=Profile(written.shares("share"), written.shares("share_se"), hour, weekday),
        clusters=tuple(_cluster(c, i, membership) for i, c in enumerate(written.clusters)),
        pair_correlation=(written.number("pairs", "correlation", -1, 1), null[0], null[1]),
        account=written.account,
        pair_correlation_with_clock=written.number("pairs", "with_clock", -1, 1)
        if written.has("pairs", "with_clock")
        else 0.0,
        stays=stays,
        absences=absences,
        habits=habits,
    )


def _same_rounds(devices: pl.DataFrame, seconds: int, path: Path) -> None:
    """λ = exp(−round / τ) in each row: other rounds would make another record of the same states."""
    forgets, hours = (devices[name].to_numpy().astype(float) for name in ("correlation", "hours"))
    inner = (forgets > 1e-6) & (forgets < 1 - 1e-6)
    if inner.any():
        fitted = float(np.median(-3600 * hours[inner] * np.log(forgets[inner])))
        if not 0.99 < seconds / fitted < 1.01:
            allowed = f"{fitted:.0f}, the length of the rounds in {path.name}; for others fit the log again"
            raise InvalidInput("rounds.seconds", seconds, allowed)


def _lengths(written: Written, table: str) -> Lengths | None:
    if not any(written.has(table, key) for key in Lengths._fields):
        return None
    hours, share = written.list(table, "hours", 1e-5, _LONGEST), written.list(table, "share", 0)
    if not 2 <= len(hours) <= MOST_BOUNDS or (np.diff(hours) <= 0).any():
        allowed = f"2 to {MOST_BOUNDS} hours, each more than the one before"
        raise InvalidInput(f"{table}.hours", list(hours), allowed)
    if len(share) != len(hours) - 1 or sum(share) <= 0:
        allowed = f"{len(hours) - 1} shares, one between each two hours, not all 0"
        raise InvalidInput(f"{table}.share", list(share), allowed)
    return Lengths(hours, tuple(each / sum(share) for each in share))


def _habits(written: Written) -> Habits | None:
    if not any(written.has("habits", key) for key in Habits._fields):
        return None
    error = written.number("habits", "sigma_se", 0) if written.has("habits", "sigma_se") else 0.0
    return Habits(written.number("habits", "sigma", 0, 10), error)


def _zone(name: str) -> str:
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidInput("rounds.zone", name, "a time zone such as Europe/Paris") from None
    return name


def _cluster(table: dict[str, Any], index: int, membership: np.ndarray) -> Cluster:
    field = f"clusters[{index}]"
    low, high = list_in(f"{field}.null", table.get("null"), 2, -1, 1)
    return Cluster(
        str(table.get("name", f"cluster {index + 1}")),
        tuple(int(k) for k in np.flatnonzero(membership == index)),
        number_in(f"{field}.correlation", table.get("correlation"), -1, 1),
        (low, high),
        number_in(f"{field}.coupling", table.get("coupling"), 0, 1),
        number_in(f"{field}.hours", table.get("hours"), 1e-6, math.inf),
    )


def _devices(path: Path, devices: int, rounds: int, clusters: int) -> pl.DataFrame:
    """The table of devices, checked against what the TOML says of it."""
    try:
        table = pl.read_parquet(path)
    except OSError as error:
        raise FedtideError(f"{path}: {error.strerror or str(error).splitlines()[0]}") from error
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise FedtideError(f"{path}: not readable as Parquet: {str(error).splitlines()[0]}") from error
    for name in ("device", "kind", *_NUMBERS, "cluster", "record"):
        if name not in table.columns:
            raise FedtideError(f"{path}: the column {name} is missing")
        kind = table.schema[name]
        right = kind == pl.List(pl.Int8) if name == "record" else kind.is_numeric() or name in ("device", "kind")
        if not right or (table[name].null_count() and name not in _NULLABLE):
            raise FedtideError(f"{path}: the column {name} is {kind} or has gaps; fit the fleet again")
    if HABIT in table.columns:
        each = table[HABIT]
        if each.dtype != pl.List(pl.Float64) or each.null_count() or (each.list.len() != 2 * HARMONICS).any():
            raise FedtideError(f"{path}: the column {HABIT} is not of {2 * HARMONICS} numbers a device")
        if not (np.abs(each.list.explode().to_numpy()) <= FURTHEST).all():
            raise FedtideError(f"{path}: the column {HABIT} is not of numbers from −{FURTHEST} to {FURTHEST}")
    if len(table) != devices or (table["record"].list.len() != rounds).any():
        raise FedtideError(f"{path}: not the {devices} devices of {rounds} rounds that {TOML} speaks of")
    if table["cluster"].min() < -1 or table["cluster"].max() >= clusters:  # pyright: ignore[reportOptionalOperand, reportOperatorIssue]
        raise FedtideError(f"{path}: the column cluster names clusters that {TOML} does not have")
    return table
