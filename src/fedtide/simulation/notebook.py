"""Progress bars in a notebook, in plain HTML: they need no widgets and stay in the saved notebook."""

import time
from html import escape
from typing import Any, Self


class NotebookProgress:
    """One bar per method that has begun. Called after every segment."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._begun: dict[str, tuple[int, float]] = {}  # rounds done at first, and when
        self._lines: dict[str, str] = {}
        self._display: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __call__(self, label: str, done: int, total: int) -> None:
        first, start = self._begun.setdefault(label, (done, time.monotonic()))
        passed = time.monotonic() - start
        speed = f", {(done - first) / passed:,.0f} rounds/s" if done > first and passed else ""
        bar = f'<progress value="{done}" max="{total}"></progress>'
        self._lines[label] = f"<tr><td>{escape(label)}</td><td>{bar}</td><td>{done:,}/{total:,} rounds{speed}</td></tr>"
        if self._display is None:
            from IPython.display import display  # pyright: ignore[reportMissingImports]

            self._display = display(self, display_id=True)
        else:
            self._display.update(self)

    def _repr_html_(self) -> str:
        return f"<table>{''.join(self._lines.values())}</table>"

    def __repr__(self) -> str:
        return f"progress of {', '.join(self._lines)}"
