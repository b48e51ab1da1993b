"""Any optax optimiser as the server."""

from typing import Any

import jax
import optax
from jax import Array

from fedtide.declared import Descent
from fedtide.errors import InvalidInput, check_one_of, number
from fedtide.servers.base import LastModel
from fedtide.types import State, part

_NAMES = ("sgd", "adam", "adagrad", "yogi", "rmsprop", "adamw", "lion", "amsgrad", "nadam", "adabelief")


class Options(dict[str, Any]):
    """Arguments of an optax constructor. Floats are leaves of a pytree, as a part's are; the others are structure."""

    def __init__(self, given: Any, numbers: tuple[str, ...] | None = None):
        super().__init__(given)
        # Kept, since JAX may put any object in place of a number.
        self.numbers = numbers or tuple(sorted(name for name, value in self.items() if isinstance(value, float)))


def _flatten(options: Options) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
    rest = tuple(sorted((name, value) for name, value in options.items() if name not in options.numbers))
    return [(jax.tree_util.DictKey(name), options[name]) for name in options.numbers], (options.numbers, rest)


def _unflatten(structure: tuple[Any, ...], values: Any) -> Options:
    numbers, rest = structure
    return Options((*rest, *zip(numbers, values, strict=True)), numbers)


jax.tree_util.register_pytree_with_keys(Options, _flatten, _unflatten)


@part
class Optimiser(LastModel):
    """w ← w − η_s v for `sgd`; otherwise one step of the optax optimiser `algorithm`, with v as its gradient.

    `options` are further arguments of the optax constructor, {name: value} or ((name, value), …): momentum, b1, eps …
    Those given as floats can be swept, as the rate can.

    Reference: Reddi et al., "Adaptive federated optimization", ICLR 2021.
    """

    algorithm: str = "sgd"
    rate: float = 1.0
    options: Options | dict[str, Any] | tuple[tuple[str, Any], ...] = ()

    def __post_init__(self):
        check_one_of("server.algorithm", self.algorithm, _NAMES)
        number("server.rate", self.rate, low=0)
        try:
            self._optax()
        except (TypeError, ValueError) as error:
            allowed = f"((name, value), …), arguments of optax.{self.algorithm}"
            raise InvalidInput("server.options", self.options, allowed) from error
        object.__setattr__(self, "options", Options(self.options))

    def in_theory(self) -> Descent:
        if self.algorithm in ("adamw", "lion") or "weight_decay" in dict(self.options):
            return Descent(unfollowed=f"Its server does more than gradient descent ({self.algorithm})")
        return Descent(float(self.rate) if self.algorithm == "sgd" and not self.options else None)

    def init(self, w: Array) -> State:
        return self._optax().init(w)

    def step(self, state: State, w: Array, direction: Array) -> tuple[Array, State]:
        change, state = self._optax().update(direction, state, w)
        return optax.apply_updates(w, change), state  # pyright: ignore[reportReturnType]

    def _optax(self) -> optax.GradientTransformation:
        return getattr(optax, self.algorithm)(self.rate, **dict(self.options))
