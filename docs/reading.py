"""How the reference reads the source: parts are dataclasses, and formulas in docstrings are plain text."""

import re
from typing import Any

from griffe import Class, Decorator, ExprName, Extension, Object

# A doctest, or what is code or the bullet of a list, or else a mark that Markdown would take for emphasis.
MARKS = re.compile(r"(^>>>.*(?:\n.+)*)|(``.+?``|`[^`]+`|^ *\* )|([_*])", re.MULTILINE)


class Reading(Extension):
    def on_class_instance(self, *, cls: Class, **kwargs: Any) -> None:
        """Shows the fields of parts as their arguments."""
        if any(decorator.callable_path == "fedtide.types.part" for decorator in cls.decorators):
            cls.decorators.append(Decorator(ExprName("dataclasses.dataclass"), lineno=None, endlineno=None))

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Doctests are code; q_k and w_B* are names, not emphasis."""
        if obj.docstring is not None:
            obj.docstring.value = MARKS.sub(_written, obj.docstring.value)


def _written(found: re.Match[str]) -> str:
    doctest, kept, mark = found.groups()
    return f"```pycon\n{doctest}\n```" if doctest else kept or f"\\{mark}"
