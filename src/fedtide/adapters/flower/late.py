"""Updates that come after their round: kept where a method's memory can use them."""

import logging
from collections.abc import Callable, Mapping

import numpy as np

from fedtide.adapters.coordinator import Update
from fedtide.adapters.flower.checks import Refused, guarded, outliers, update_of
from fedtide.adapters.flower.exchange import Heard
from fedtide.adapters.flower.messages import Reply
from fedtide.adapters.flower.settings import CheckSettings

log = logging.getLogger("fedtide")

_OLD = 20  # rounds after which an update is too old to be used


class LateUpdates:
    """The newest late update of each client, until a round takes it. `change`: clients send this round's change."""

    def __init__(self, limits: CheckSettings, change: bool):
        self.limits, self.change = limits, change
        self._models: dict[int, np.ndarray] = {}  # of rounds whose late updates are still of use
        self._kept: dict[int, tuple[int, Update]] = {}
        self._used: dict[int, int] = {}  # by client: the round of its last late update

    def expect(self, t: int, w: np.ndarray) -> None:
        """Late updates of round t, whose model this is, will be of use."""
        self._models[t] = w

    def forget(self, done: int) -> None:
        """Drops the models of rounds that are too long ago."""
        self._models = {t: w for t, w in self._models.items() if t >= done - _OLD}

    def keep(self, heard: Heard, opened: Callable[[Heard], Reply], acknowledged: int) -> None:
        """Keeps an answer that came late, unless a newer one counted, or it is refused."""
        order = heard.question.order
        if order.kind != "train" or order.round not in self._models:
            return
        if order.round <= max(acknowledged, self._used.get(order.number, -1)):
            return  # the memory holds a newer one
        try:
            with guarded():
                update = update_of(opened(heard), self._models[order.round], heard.question.about, self.limits)
        except Refused as error:
            log.warning("client %s: its late update is refused: %s", order.client, error)
            return
        if self._kept.get(order.number, (-1,))[0] < order.round:
            self._kept[order.number] = order.round, update

    def take(self, updates: Mapping[int, Update], names: Callable[[int], str]) -> dict[int, Update]:
        """Late updates of those who sent none in time, if they are no outliers among this round's."""
        kept, self._kept = {k: one for k, one in self._kept.items() if k not in updates}, {}
        late = {k: update for k, (_, update) in kept.items()}
        for k, reason in outliers({**late, **updates}, self.limits.times_median, self.change).items():
            if late.pop(k, None) is not None:
                log.warning("client %s: its late update is refused: %s", names(k), reason)
        self._used |= {k: kept[k][0] for k in late}
        return late
