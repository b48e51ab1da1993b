"""Updates that arrive after their round, for methods whose memory can use them."""

import logging
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fedtide.adapters.coordinator import Update
from fedtide.adapters.flower.checks import ExpectedReply, Refused, guarded, outliers, update_of
from fedtide.adapters.flower.exchange import RequestOutcome
from fedtide.adapters.flower.messages import Reply
from fedtide.adapters.flower.settings import CheckSettings
from fedtide.adapters.ledger import Enrolled

log = logging.getLogger("fedtide")

_OLD = 20  # rounds after which an update is discarded


class LateUpdates:
    """The newest late update of each client, until a round uses it."""

    def __init__(self, limits: CheckSettings, expected: ExpectedReply, roster: Sequence[Enrolled]):
        self.limits, self.expected, self.roster = limits, expected, roster
        self._models: dict[int, np.ndarray] = {}  # of rounds whose late updates can still be used
        self._kept: dict[int, tuple[int, Update]] = {}
        self._used: dict[int, int] = {}  # by client: the round of its last late update

    def expect(self, t: int, w: np.ndarray) -> None:
        """Registers the model of round t, so that late updates of this round can be used."""
        self._models[t] = w

    def drop_before(self, done: int) -> None:
        """Drops the models of old rounds."""
        self._models = {t: w for t, w in self._models.items() if t >= done - _OLD}

    def keep(self, outcome: RequestOutcome, opened: Callable[[RequestOutcome], Reply], acknowledged: int) -> None:
        """Keeps a late update, unless a newer one was used or it fails a check."""
        order = outcome.request.order
        if order.kind != "train" or order.round not in self._models:
            return
        if order.round <= max(acknowledged, self._used.get(order.number, -1)):
            return  # the memory contains a newer update
        try:
            with guarded():
                model, examples = self._models[order.round], self.roster[order.number].examples
                update = update_of(opened(outcome), model, self.expected, examples, self.limits)
        except Refused as error:
            log.warning("client %s: its late update is refused: %s", order.client, error)
            return
        if self._kept.get(order.number, (-1,))[0] < order.round:
            self._kept[order.number] = order.round, update

    def take(self, updates: Mapping[int, Update]) -> dict[int, Update]:
        """Late updates of clients without an update in this round, except outliers among this round's updates."""
        kept, self._kept = {k: one for k, one in self._kept.items() if k not in updates}, {}
        late = {k: update for k, (_, update) in kept.items()}
        for k, reason in outliers({**late, **updates}, self.limits.times_median, self.expected.change).items():
            if late.pop(k, None) is not None:
                log.warning("client %s: its late update is refused: %s", self.roster[k].client, reason)
        self._used |= {k: kept[k][0] for k in late}
        return late
