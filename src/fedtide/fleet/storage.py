"""The fitted fleet on disk: readable `fleet.toml`, and `devices.parquet` with one row per device."""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fedtide.errors import FedtideError, InvalidInput
from fedtide.experiments.config import Table, validated
from fedtide.experiments.place import Place
from fedtide.files import atomic, write_text
from fedtide.fleet import tables
from fedtide.fleet.diagnosis.findings import named
from fedtide.fleet.log import Account, Issue
from fedtide.fleet.model import HABIT, Cluster, Distribution, FleetModel, Habits, Lengths, Profile
from fedtide.fleet.process.waves import FURTHEST, HARMONICS
from fedtide.kinds import kinds_checked
from fedtide.tomls import dumps

TOML, DEVICES = "fleet.toml", "devices.parquet"
_NUMBERS = (
    "observed", "here", "visits", "off_off", "off_on", "on_off", "on_on", "availability", "availability_se",
    "availability_low", "availability_high", "correlation", "correlation_se", "correlation_low", "correlation_high",
    "hours", "on_given_on", "on_given_on_se", "on_given_off", "on_given_off_se", "raw_availability", "raw_correlation",
)  # fmt: skip
_NULLABLE = ("raw_availability", "raw_correlation")


def save_model(model: FleetModel, folder: Path | str) -> Path:
    """Writes both files, each whole or not at all; returns the TOML's path."""
    folder = Path(folder)
    record = pl.Series("record", np.ascontiguousarray(model.record.T)).cast(pl.List(pl.Int8))
    with atomic(folder / DEVICES) as temporary:
        model.devices.with_columns(record).write_parquet(temporary)
    write_text(folder / TOML, _text(model))
    return folder / TOML


@kinds_checked
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
        _same_format(written.get("format", tables.FORMAT))
        return _model(validated(tables.Written, written, Place(str(path))), path.parent / DEVICES)
    except InvalidInput as error:
        raise FedtideError(f"{path}: {error}") from error


def _same_format(written: object) -> None:
    """Checked first, as tables of another format have other keys."""
    if written != tables.FORMAT or isinstance(written, bool):
        earlier = isinstance(written, int) and written < tables.FORMAT
        why = "; an earlier fedtide wrote this file: run fedtide fleet fit again" if earlier else ", all that is read"
        raise InvalidInput("format", written, f"{tables.FORMAT}{why}")


_ABOUT = {  # comments in the file, by the table that they precede
    "rounds": """\
The record: length of a round, number of rounds, when round 0 begins (seconds since 1970, or of the log's own
clock where there is no zone), and the zone in which days are counted.""",
    "availability": """\
Availability: π ~ Beta(a, b), and a fraction of the devices is never available. _se are standard errors.
negative: devices with significantly negative correlation (at 1 %), which this family does not include.""",
    "persistence": """\
Persistence: relaxation time τ ~ lognormal(median hours, σ), independent of π; λ = exp(−round / τ).""",
    "profile": """\
The shared clock: P(available) = π (1 + s d), 1 + d = (1 + hour)(1 + weekday).
hour: at the middles of hours; weekday: from Monday (absent if the record is too short);
share: observed, by hour.""",
    "pairs": """\
Mean signed correlation of pairs of devices, clock removed, and 95 % of it for independent devices.
with_clock: the same before the clock is removed.""",
    "habits": """\
Habits: the log odds of being available vary 1, 2, 3 and 4 times a day, by harmonics with cosines
and sines of N(0, sigma²), N(0, (sigma/2)²), …: sigma is for fleets of another size; these devices'
harmonics are in the column `habit`. Without this table all follow the same clock.""",
    "stays": """\
Lengths of stays and absences of a typical device, if they are not those of a chain: share[i] of them last
hours[i] to hours[i + 1]. Each device has the same lengths in other proportions, with the mean that follows
from its π and τ; without these tables its runs are geometric.""",
    "clusters": """\
Devices that are correlated beyond the clock; members are in the column `cluster`, from 0. coupling: share
of the latent variance that is common; hours: relaxation time of the common part.""",
    "account": "How the log's rows were handled.",
}


def _text(model: FleetModel) -> str:
    days = len(model.record) * model.round_seconds / 86_400
    head = (
        f"A fitted fleet: {len(model.devices)} devices, {days:.1f} days; they are in {DEVICES} beside this file.\n"
        'In a configuration: [availability] name = "fleet", path = this folder. Numbers may be edited, which\n'
        "changes fleets drawn from it."
    )
    blocks = [_block(head, {"format": tables.FORMAT, "source": model.source})]
    blocks += [_block(_ABOUT.get(name, ""), {name: table}) for name, table in _tables(model).items() if table]
    return "\n".join(blocks)


def _block(comment: str, written: dict[str, Any]) -> str:
    return "\n".join([*(f"# {line}" for line in comment.splitlines()), dumps(_rounded(written))])


def _tables(model: FleetModel) -> dict[str, Any]:
    """In the order of the file; tables that are empty or None are not written."""
    (hours, sigma), (hours_se, sigma_se) = model.distribution.hours, model.distribution.hours_se
    correlation, *null = model.pair_correlation
    rounds = {"seconds": model.round_seconds, "count": len(model.record), "devices": len(model.devices)}
    return {
        "rounds": {**rounds, "start": model.start, "zone": model.zone},
        "availability": _fields(tables.AvailabilityTable, model.distribution),
        "persistence": {"hours": hours, "hours_se": hours_se, "sigma": sigma, "sigma_se": sigma_se},
        "profile": _fields(tables.ProfileTable, model.profile),
        "pairs": {"correlation": correlation, "null": null, "with_clock": model.pair_correlation_with_clock},
        "habits": model.habits,
        "stays": model.stays,
        "absences": model.absences,
        "clusters": [_fields(tables.ClusterTable, each) for each in model.clusters],
        "account": _fields(tables.AccountTable, model.account),
    }


def _fields(table: type[Table], value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in table.model_fields}


def _rounded(value: Any) -> Any:
    """Floats rounded to six digits, for readability; without None, which TOML does not have."""
    if (fields := value if isinstance(value, dict) else named(value)) is not None:
        return {key: _rounded(one) for key, one in fields.items() if one is not None}
    if isinstance(value, list | tuple | np.ndarray):
        return [_rounded(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _model(found: tables.Written, path: Path) -> FleetModel:
    lasts, account = found.persistence, found.account
    devices = _devices(path, found.rounds.devices, found.rounds.count, len(found.clusters))
    record = np.ascontiguousarray(devices["record"].list.explode().to_numpy().reshape(len(devices), -1).T)
    if not np.isin(np.unique(record), (-1, 0, 1)).all():
        raise FedtideError(f"{path}: record holds other numbers than −1, 0 and 1")
    _same_rounds(devices, found.rounds.seconds, path)
    if (found.stays is None) != (found.absences is None):
        missing = "absences" if found.absences is None else "stays"
        raise InvalidInput(missing, None, "a table: stays and absences are given together")
    membership = devices["cluster"].to_numpy()
    issues = tuple(Issue(**issue.model_dump()) for issue in account.issues)
    return FleetModel(
        source=found.source,
        devices=devices.drop("record", *([] if found.habits else [HABIT]), strict=False),
        record=record,
        round_seconds=found.rounds.seconds,
        start=found.rounds.start,
        zone=found.rounds.zone,
        distribution=Distribution(
            **found.availability.model_dump(),
            hours=(lasts.hours, lasts.sigma),
            hours_se=(lasts.hours_se, lasts.sigma_se),
        ),
        profile=Profile(**{name: value and np.array(value) for name, value in found.profile}),
        clusters=tuple(
            Cluster(
                name=table.name or f"cluster {i + 1}",
                **table.model_dump(exclude={"name"}),
                members=tuple(np.flatnonzero(membership == i).tolist()),
            )
            for i, table in enumerate(found.clusters)
        ),
        pair_correlation=(found.pairs.correlation, *found.pairs.null),
        account=Account(source=found.source, issues=issues, **account.model_dump(exclude={"issues"})),
        pair_correlation_with_clock=found.pairs.with_clock,
        stays=_lengths(found.stays),
        absences=_lengths(found.absences),
        habits=found.habits and Habits(**found.habits.model_dump()),
    )


def _lengths(table: tables.LengthsTable | None) -> Lengths | None:
    return table and Lengths(table.hours, tuple(each / sum(table.share) for each in table.share))


def _same_rounds(devices: pl.DataFrame, seconds: int, path: Path) -> None:
    """λ = exp(−round / τ) in each row: another length would change the meaning of the record."""
    lam, hours = (devices[name].to_numpy().astype(float) for name in ("correlation", "hours"))
    inner = (lam > 1e-6) & (lam < 1 - 1e-6)
    if inner.any():
        fitted = float(np.median(-3600 * hours[inner] * np.log(lam[inner])))
        if not 0.99 < seconds / fitted < 1.01:
            allowed = f"{fitted:.0f}, the length of the rounds in {path.name}; for others fit the log again"
            raise InvalidInput("rounds.seconds", seconds, allowed)


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
            raise FedtideError(f"{path}: the column {HABIT} must hold {2 * HARMONICS} numbers per device")
        if not (np.abs(each.list.explode().to_numpy()) <= FURTHEST).all():
            raise FedtideError(f"{path}: the column {HABIT} is not of numbers from −{FURTHEST} to {FURTHEST}")
    if len(table) != devices or (table["record"].list.len() != rounds).any():
        raise FedtideError(f"{path}: must hold the {devices} devices and {rounds} rounds that {TOML} states")
    if table["cluster"].min() < -1 or table["cluster"].max() >= clusters:  # pyright: ignore[reportOptionalOperand, reportOperatorIssue]
        raise FedtideError(f"{path}: the column cluster refers to clusters that are not in {TOML}")
    return table
