"""The meaning of columns, and the form of a log that follows from it."""

from collections.abc import Mapping

from fedtide.errors import InvalidInput, one_of, spelled
from fedtide.fleet.reading.source import SourceTable
from fedtide.fleet.reading.tally import Tally

FORMS = {
    "intervals": ("device", "start", "end"),
    "events": ("device", "time", "state"),
    "heartbeats": ("device", "time"),
}
# The first row of names wins over the second: "id" is a device only if nothing better is present.
_ALIASES = {
    "device": (
        "device device_id deviceid client client_id clientid node node_id nodeid phone phone_id host hostname machine "
        "device_name client_name node_name worker worker_id",
        "id user user_id userid uid name uuid serial imei",
    ),
    "start": (
        "start start_s start_ms start_us start_ns start_time starttime start_ts begin begin_s begin_ms begin_time "
        "began from obs_start obs_start_s obs_start_ms observed_from start_at started_at started start_date "
        "start_timestamp online_from on_from",
        "since first first_seen",
    ),
    "end": (
        "end end_s end_ms end_us end_ns end_time endtime end_ts stop stop_s stop_ms stop_time to until obs_end "
        "obs_end_s obs_end_ms observed_to observed_until end_at ended_at ended end_date end_timestamp online_to on_to "
        "finish",
        "till last last_seen",
    ),
    "time": (
        "time time_s time_ms time_us time_ns timestamp timestamp_s timestamp_ms ts ts_s ts_ms t "
        "datetime date_time moment at epoch",
        "date seen when",
    ),
    "state": ("state status available availability online is_available is_online", "event action value type up on"),
}


def find_columns(
    table: SourceTable, form: str | None, columns: Mapping[str, str], used: list[str], tally: Tally
) -> tuple[str, dict[str, str]]:
    """The form and, for each of our names, the column that holds it. `used`: columns that serve another purpose."""
    for ours, theirs in columns.items():
        if ours not in _ALIASES:
            raise InvalidInput("columns", ours, one_of(str(ours), _ALIASES))
        if theirs not in table.columns:
            tally.fail(f"there is no column {theirs!r} ({ours}); {_listed(table)}")
    free = [name for name in table.columns if name not in used and name not in columns.values()]
    found = {ours: [theirs] for ours, theirs in columns.items()}
    for ours in _ALIASES:
        found.setdefault(ours, _candidates(ours, free))
    if not found["device"]:  # where may select devices, too
        found["device"] = _candidates("device", [name for name in used if name in table.columns])
    known = [form] if form is not None else [name for name in FORMS if all(found[ours] for ours in FORMS[name])]
    if len(known) > 1 and "heartbeats" in known:  # the others have its columns and more
        known.remove("heartbeats")
    if not known:
        near = "device, start, end (intervals); device, time, state (events); device, time (heartbeats)"
        tally.fail(
            f"the format is not recognised: a log needs columns {near}; {_listed(table)}; name them with columns"
        )
    if len(known) > 1:
        tally.fail(f"the format is ambiguous ({' or '.join(known)}): choose with {spelled('form')}; {_listed(table)}")
    chosen = {}
    for ours in FORMS[known[0]]:
        if not found[ours]:
            remedy = f"name it with {spelled('columns')}"
            tally.fail(f"no column for {ours}, which {known[0]} need; {_listed(table)}; {remedy}")
        if len(found[ours]) > 1:
            tally.fail(f"several columns match {ours}: {', '.join(found[ours])}; choose one with {spelled('columns')}")
        chosen[ours] = found[ours][0]
    if len(set(chosen.values())) < len(chosen):
        raise InvalidInput("columns", dict(columns), "a different column for each name")
    return known[0], chosen


def some_form_fits(names: list[str]) -> bool:
    """Whether the columns of a form other than a matrix are among these."""
    return any(all(_candidates(ours, names) for ours in form) for form in FORMS.values())


def find_time(names: list[str], columns: Mapping[str, str]) -> str | None:
    """The time column of a matrix, where it has one."""
    if "time" in columns:
        return columns["time"]
    found = _candidates("time", names)
    return found[0] if len(found) == 1 else None


def note_ignored(table: SourceTable, used: list[str], tally: Tally) -> None:
    """Notes unused columns that seem to distinguish kinds of rows: text with 2 to 20 different values."""
    for name in [name for name in table.columns if name not in used][:50]:
        column = table.head[name]
        if str(column.dtype) not in ("String", "Categorical", "Enum"):
            continue
        values = column.cast(str).drop_nulls().unique().sort()
        numbers = values.cast(float, strict=False).is_not_null().all()
        if 2 <= len(values) <= 20 and not numbers:
            shown = ", ".join(value[:30] for value in values[:5]) + (", …" if len(values) > 5 else "")
            tally.note(f"Column {name} is ignored. It has {len(values)} values: {shown}. Select rows with where.")


def check_types(table: SourceTable, chosen: Mapping[str, str], tally: Tally) -> None:
    """Fails if a column has a type that cannot be read."""
    for ours, theirs in chosen.items():
        kind = table.head[theirs].dtype
        if kind.is_nested() or str(kind).startswith(("Binary", "Object")):
            tally.fail(f"column {theirs} ({ours}) has type {kind}: must be text, numbers or times")


def _candidates(ours: str, names: list[str]) -> list[str]:
    if ours in names:
        return [ours]
    for aliases in _ALIASES[ours]:
        known = set(aliases.split())
        if found := [name for name in names if plain(name) in known]:
            return found
    return []


def plain(name: str) -> str:
    """The name of a column in lower case, with underscores."""
    return name.strip().lower().replace(" ", "_").replace("-", "_").replace(".", "_")


def _listed(table: SourceTable) -> str:
    names = [name[:30] for name in table.columns]
    return f"its columns are {', '.join(names[:12])}" + (f" … ({len(names)} in all)" if len(names) > 12 else "")
