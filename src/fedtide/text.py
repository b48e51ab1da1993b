"""Numbers, names and settings as text."""

import unicodedata
from collections.abc import Mapping, Sequence

from fedtide.statistics import Metric

NOTHING = "–"


def clean(text: object) -> str:
    """Text on one line, without control characters."""
    return " ".join("".join(" " if unicodedata.category(c) in ("Cc", "Cs") else c for c in str(text)).split())


def short(text: object, most: int) -> str:
    """Text shortened to `most` characters, keeping the beginning and the end, by which variants differ."""
    text = clean(text)
    tail = (most - 1) // 3
    return text if len(text) <= most else text[: most - 1 - tail].rstrip() + "…" + text[len(text) - tail :].lstrip()


def percent(share: float | None, decimals: int = 1) -> str:
    """A fraction in percent."""
    return NOTHING if share is None else f"{100 * share:.{decimals}f}%"


def decimal(number: float, digits: int = 2) -> str:
    """A number with so many decimals."""
    return minus(f"{number:.{digits}f}")


def value(kind: Metric, number: float | None) -> str:
    """An accuracy in percent, an objective with four digits."""
    return NOTHING if number is None else percent(number) if kind == "accuracy" else minus(f"{number:#.4g}".rstrip("."))


def spread(kind: Metric, low: float, high: float) -> str:
    """The bounds of an interval of values, without unit."""
    return minus(f"{100 * low:.1f} to {100 * high:.1f}" if kind == "accuracy" else f"{low:.3g} to {high:.3g}")


def change(kind: Metric, number: float | None) -> str:
    """A signed difference: of accuracies in points, of objectives with three digits."""
    if number is None:
        return NOTHING
    text = f"{100 * number:+.2f}" if kind == "accuracy" else f"{number:+.3g}"
    return minus(text.lstrip("+-") if float(text) == 0 else text)


def size(kind: Metric, number: float) -> str:
    """The size of a difference, with its unit."""
    return f"{abs(100 * number):.2f} points" if kind == "accuracy" else f"{abs(number):.3g}"


def count(number: int, singular: str, plural: str | None = None) -> str:
    """`1 seed`, `2 seeds`."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def duration(seconds: int) -> str:
    """1800 → `30 minutes`: a whole number of the largest unit possible."""
    units = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
    unit, name = next(pair for pair in units if seconds % pair[0] == 0) if seconds else units[-1]
    return f"{seconds // unit} {name}{'' if seconds == unit else 's'}"


def rounded_duration(seconds: float) -> str:
    """`41 s`, `12 min`, `2.5 h`."""
    if seconds < 100:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def readable(size: float, digits: int = 3) -> str:
    """`2.4 kB`, `20 MB`: bytes in powers of 1000."""
    power = 0
    while size >= 999.5 and power < 4:
        size, power = size / 1000, power + 1
    return f"{size:.{digits}g} {('bytes', 'kB', 'MB', 'GB', 'TB')[power]}"


def number(value: float | None, form: str) -> str:
    """A number in a format of Python's, with a minus sign; `–` for None."""
    return NOTHING if value is None else minus(format(value, form))


def minus(text: str) -> str:
    """Hyphens as minus signs."""
    return text.replace("-", "−")


def unbroken(text: str) -> str:
    """Text in which no line breaks around an equals sign."""
    return text.replace(" = ", "\u00a0=\u00a0")


def setting(value: object) -> str:
    """A value as text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else clean(value)


def settings(flat: Mapping[str, object]) -> list[tuple[str, str]]:
    """Settings by dotted names, nested into one line per part.

    >>> settings({"solver": "Sgd", "solver.rate": 0.1, "solver.work": "Steps", "solver.work.count": 5})
    [('solver', 'Sgd(rate=0.1, work=Steps(count=5))')]
    """

    def fold(name: str) -> str:
        inner = [k for k in flat if k.startswith(f"{name}.") and "." not in k[len(name) + 1 :]]
        inside = ", ".join(f"{clean(k[len(name) + 1 :])}={fold(k)}" for k in inner)
        return setting(flat[name]) + (f"({inside})" if inside else "")

    # A dotted name without its owner is shown as it is. `replaced` is shown only if parts were replaced; records hold
    # a tuple as its text.
    shown = (name for name in flat if name != "replaced" or flat[name] not in ("()", "", None))
    return [(clean(name), fold(name)) for name in shown if name.rpartition(".")[0] not in flat]
