"""Any optax optimiser as the server."""

from typing import Any

import optax
from jax import Array

from fedtide.errors import InvalidInput, one_of, require
from fedtide.servers.base import LastModel
from fedtide.types import State, part

_NAMES = ("sgd", "adam", "adagrad", "yogi", "rmsprop", "adamw", "lion", "amsgrad", "nadam", "adabelief")


@part
class Optimiser(LastModel):
    """w ← w − η_s v for `sgd`; otherwise one step of the optax optimiser `algorithm`, with v as its gradient.

    `options` are further arguments of the optax constructor, as ((name, value), …): momentum, b1, eps …

    Reference: Reddi et al., "Adaptive federated optimization", ICLR 2021.
    """

    algorithm: str = "sgd"
    rate: float = 1.0
    options: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self):
        if self.algorithm not in _NAMES:
            raise InvalidInput("server.algorithm", self.algorithm, one_of(self.algorithm, _NAMES))
        require(self.rate >= 0, "server.rate", self.rate, "0 or more")
        try:
            self._optax()
        except (TypeError, ValueError) as error:
            allowed = f"((name, value), …), arguments of optax.{self.algorithm}"
            raise InvalidInput("server.options", self.options, allowed) from error

    def init(self, w: Array) -> State:
        return self._optax().init(w)

    def step(self, state: State, w: Array, direction: Array) -> tuple[Array, State]:
        change, state = self._optax().update(direction, state, w)
        return optax.apply_updates(w, change), state  # pyright: ignore[reportReturnType]

    def _optax(self) -> optax.GradientTransformation:
        return getattr(optax, self.algorithm)(self.rate, **dict(self.options))
