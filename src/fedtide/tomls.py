"""Writing TOML."""

import json
from typing import Any

from fedtide.kinds import kinds_checked


@kinds_checked
def dumps(written: dict[str, Any], inline: bool = False) -> str:
    """TOML text: values first, then [tables] and [[arrays of tables]] unless `inline`; nested tables are inline."""
    lines = [f"{_key(key)} = {toml(value)}" for key, value in written.items() if inline or not _is_table(value)]
    for key, value in written.items():
        if _is_table(value) and not inline:
            opening, tables = (f"[{_key(key)}]", [value]) if isinstance(value, dict) else (f"[[{_key(key)}]]", value)
            for table in tables:
                lines += ["", opening, *(f"{_key(k)} = {toml(v)}" for k, v in table.items())]
    return "\n".join(lines).lstrip("\n") + "\n"


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list | tuple) and len(value) > 0 and all(isinstance(v, dict) for v in value)
    )


def _key(key: str) -> str:
    plain = key.isascii() and key.replace("_", "").replace("-", "").isalnum()
    return key if plain else toml(key)


def toml(value: Any) -> str:
    """A value in TOML, on one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case dict():
            return "{" + ", ".join(f"{_key(k)} = {toml(v)}" for k, v in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(toml, value)) + "]"
        case _:
            return repr(value)  # integers, floats, inf and nan are the same in Python and TOML
