"""How long the server waits: long enough for those who are there, no longer."""

import logging
from collections import deque

import numpy as np

from fedtide.adapters.flower.settings import DeadlineSettings

log = logging.getLogger("fedtide")

_WINDOW = 200  # answers that are remembered
_QUANTILE, _MARGIN = 0.95, 2.0
_CLOSE, _OFTEN = 0.8, 0.1  # answers after so much of the deadline count as close to it; warned about above this share


class Deadlines:
    """Seconds for each kind of question: twice what 19 of 20 recent answers needed, within limits.

    Answers that came after the deadline are observed, too, when they come: a deadline that is too short grows. One that
    never comes says nothing about how long answers take.
    """

    def __init__(self, limits: DeadlineSettings):
        self.limits = limits
        self._seen: dict[str, deque[tuple[float, float]]] = {}
        self._warned: dict[str, float] = {}

    def seconds(self, kind: str) -> float:
        """The deadline for the next question of this kind."""
        seen = self._seen.get(kind)
        if not seen:
            return self.limits.start
        wanted = _MARGIN * float(np.quantile([latency for latency, _ in seen], _QUANTILE))
        return min(max(wanted, self.limits.least), self.limits.most)

    def observe(self, kind: str, latency: float, deadline: float) -> None:
        """An answer that took so long when the deadline was this."""
        self._seen.setdefault(kind, deque(maxlen=_WINDOW)).append((latency, deadline))

    def warn(self, kind: str) -> str | None:
        """Says, once for each deadline, that many answers come close to it or after it: absence is then invented."""
        seen = self._seen.get(kind, ())
        close = sum(latency > _CLOSE * deadline for latency, deadline in seen)
        if not seen or close <= _OFTEN * len(seen):
            return None
        now = self.seconds(kind)
        if self._warned.get(kind) == now:
            return None
        self._warned[kind] = now
        more = "; raise deadline.most" if now >= self.limits.most else ""
        message = (
            f"{close} of the last {len(seen)} answers to '{kind}' came close to the deadline or after it: slow clients "
            f"are taken for absent ones, and estimates of availability suffer (deadline now {now:.1f} s{more})"
        )
        log.warning(message)
        return message
