"""Extension of griffe for the reference: parts are dataclasses, and formulas in docstrings are plain text."""

import re
from typing import Any

from griffe import Class, Decorator, ExprName, Extension, Object

# A doctest; or code or the bullet of a list; or a character that Markdown would interpret as emphasis.
MARKS = re.compile(r"(^>>>.*(?:\n.+)*)|(``.+?``|`[^`]+`|^ *\* )|([_*])", re.MULTILINE)


class Reading(Extension):
    def on_class_instance(self, *, cls: Class, **kwargs: Any) -> None:
        """Documents the fields of parts as their arguments."""
        if any(decorator.callable_path == "fedtide.types.part" for decorator in cls.decorators):
            cls.decorators.append(Decorator(ExprName("dataclasses.dataclass"), lineno=None, endlineno=None))

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Fences doctests, and escapes names such as q_k and w_B*, which are not emphasis."""
        if obj.docstring is not None:
            obj.docstring.value = MARKS.sub(_escaped, obj.docstring.value)


def _escaped(match: re.Match[str]) -> str:
    doctest, kept, mark = match.groups()
    return f"```pycon\n{doctest}\n```" if doctest else kept or f"\\{mark}"
