"""When the server takes a step: what barriers declare.

A barrier is data. One loop over events (`fedtide.simulation.events`) runs all of them.
"""

from typing import ClassVar, Literal, Protocol

from jax import Array

from fedtide.types import derived

Late = Literal["dropped", "counted"]
"""Work that is unfinished when the server takes a step: stopped, or counted in the step after it arrives."""


class Barrier(Protocol):
    """When clients start and when the server takes a step."""

    starts: ClassVar[Literal["policy", "places"]]
    """Who decides which clients start: the method's policy, at the beginning of a round, or the barrier, which fills
    free places with available clients at random. The policy then decides on the clients that arrived."""
    refills: ClassVar[bool]  # whether clients also start between two server steps
    keeps: ClassVar[bool]  # whether unfinished work continues after a server step

    places: ClassVar[int | None]  # clients that work at the same time; None: any number
    target: ClassVar[int | None]  # arrivals after which the server takes a step; None: any number
    least: ClassVar[Array | float]  # seconds between two server steps, at least
    most: ClassVar[Array | float | None]  # and at most


class Rounds:
    """Defaults for a barrier with rounds: clients start together, and the policy decides which."""

    late: Late

    starts: ClassVar[Literal["policy", "places"]] = "policy"
    refills: ClassVar[bool] = False
    keeps: ClassVar[bool] = derived(lambda self: self.late == "counted")
    places: ClassVar[int | None] = None
    target: ClassVar[int | None] = None
    least: ClassVar[Array | float] = 0.0
    most: ClassVar[Array | float | None] = None


class Asynchronous:
    """Defaults for a barrier without rounds: a client starts from the newest model whenever a place is free."""

    starts: ClassVar[Literal["policy", "places"]] = "places"
    refills: ClassVar[bool] = True
    keeps: ClassVar[bool] = True
    places: ClassVar[int | None] = None
    target: ClassVar[int | None] = None
    least: ClassVar[Array | float] = 0.0
    most: ClassVar[Array | float | None] = None
