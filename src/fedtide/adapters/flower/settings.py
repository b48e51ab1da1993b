"""The run's settings: flat keys of [tool.flwr.app.config], such as `method.name`, `deadline.least`, `rounds`.

Keys may be written with hyphens or underscores. `method.*` is a method and its arguments, `local.*` the local work
(steps or epochs, and batch), as in configurations of experiments. `app.*` is for the user's own settings. Flower has no
lists: in `method.*`, a text such as "[1.0, 0.5]" is one.
"""

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from fedtide.errors import FedtideError, number, require
from fedtide.experiments.build import named_method
from fedtide.experiments.config import Count, Positive, Seed, Table, validated
from fedtide.experiments.place import Place
from fedtide.methods.base import Method

PLACE = Place("[tool.flwr.app.config]")

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
AboveZero = Annotated[float, Field(gt=0, allow_inf_nan=False, description="positive")]
AboveOne = Annotated[float, Field(gt=1, allow_inf_nan=False)]


class DeadlineSettings(Table):
    """Deadline of a phase in seconds: `start` at first, then adapted to the clients' response times."""

    least: AboveZero = 5.0
    most: AboveZero = 600.0
    start: AboveZero = 60.0


class CheckSettings(Table):
    """Limits for updates; None: no limit."""

    most_norm: AboveZero | None = Field(default=None, description="positive: the largest norm of an update")
    times_median: AboveOne | None = Field(
        default=100.0, description="above 1: norm, rate or mass relative to the round's median"
    )
    most_bytes: Positive | None = Field(default=None, description="a whole number: bytes of a reply, 1 or more")
    clip: AboveZero | None = Field(default=None, description="positive: updates with a larger norm are clipped to it")


class Settings(Table):
    """The whole configuration. Tables of the method, its local work and the problem are not parsed here."""

    method: dict[str, Any] = Field(default={}, description="keys method.…")
    local: dict[str, Any] = Field(default={}, description="keys local.…")
    problem: dict[str, Any] = Field(default={}, description="keys problem.…")
    app: dict[str, Any] = Field(default={}, description="keys app.…: the user's own")
    rounds: Positive = Field(description="a whole number, 1 or more")
    run: str = Field(default="run", description="a name that a folder can have")
    seed: Seed = Field(default=0, description="a whole number from 0 to 2³² − 1")
    state: str = Field(default="fedtide-state", description="text: the folder of checkpoint and ledger")
    ledger: str = Field(default="", description="text: a URL; by default ledger.db in the state folder")
    keys: str = Field(default="", description="text: a folder with the clients' public keys, NAME.pub")
    clients: str = Field(default="", description="text: ids, separated by commas; by default all clients that enrol")
    min_clients: Positive = Field(default=1, description="a whole number, 1 or more")
    enrol_seconds: Seconds = Field(default=60.0, description="a number, 0 or more")
    importance: Literal["uniform", "size"] = Field(default="size", description='"uniform" or "size"')
    phases: Literal["auto", "one", "two"] = Field(default="auto", description='"auto", "one" or "two"')
    losses: Literal["asked", "from-training"] = Field(default="asked", description='"asked" or "from-training"')
    late: Literal["drop", "use"] = Field(default="drop", description='"drop" or "use"')
    lost_memory: Literal["refuse", "restart"] = Field(default="refuse", description='"refuse" or "restart"')
    history: Literal["ledger", "none"] = Field(default="ledger", description='"ledger" or "none": of earlier runs')
    evaluate_every: Count = Field(default=0, description="a number of rounds; 0 for never")
    # The minimum duration of a round; 0: the next round begins as soon as a client is available.
    round_seconds: Seconds = Field(default=0.0, description="a number, 0 or more")
    poll_seconds: AboveZero = Field(default=0.2, description="positive: seconds between two polls for replies")
    deadline: DeadlineSettings = Field(default=DeadlineSettings(), description="keys deadline.…")
    checks: CheckSettings = Field(default=CheckSettings(), description="keys checks.…")

    @property
    def ids(self) -> list[str]:
        """The listed clients; empty if all clients that enrol are admitted."""
        return [name.strip() for name in self.clients.split(",") if name.strip()]

    @property
    def folder(self) -> Path:
        return Path(self.state).expanduser() / self.run

    @property
    def ledger_url(self) -> str:
        return self.ledger or str(Path(self.state).expanduser() / "ledger.db")


def settings_of(config: Mapping[str, Any]) -> Settings:
    """The run's settings; an invalid one is an error of one line with its key."""
    tables: dict[str, Any] = {}
    for key, value in config.items():
        *path, last = key.replace("-", "_").split(".")
        place = tables
        for step in path:
            place = place.setdefault(step, {})
            if not isinstance(place, dict):
                raise PLACE.key(key).error(f"{step} is also the name of a value")
        if path[:1] == ["method"] and isinstance(value, str) and value.startswith("["):
            with contextlib.suppress(ValueError):  # a name may begin like this, too
                value = json.loads(value)
        place[last] = value
    settings = validated(Settings, tables, PLACE)
    run, ids, deadline = settings.run, settings.ids, settings.deadline
    try:
        require(run == Path(run).name and run not in ("", ".", ".."), "run", run, "a name that a folder can have")
        require(len(set(ids)) == len(ids), "clients", settings.clients, "different ids, separated by commas")
        number("deadline.most", deadline.most, low=deadline.least)
        number("deadline.start", deadline.start, low=deadline.least, high=deadline.most)
    except FedtideError as error:
        raise PLACE.error(str(error)) from None
    if "://" in settings.ledger:
        _refuse_password(settings.ledger)
    return settings


def _refuse_password(ledger: str) -> None:
    """Refuses a ledger's URL with a password: Flower hands the app's configuration to every client."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(ledger)
    except (ArgumentError, ValueError):
        return  # opening the ledger explains the error without showing the URL
    if url.password is not None or any("password" in key.lower() for key in url.query):
        raise PLACE.key("ledger").error(
            "a password, which every client could read; write the URL without one, and the password in ~/.pgpass of "
            "the server (or the file that PGPASSFILE names)"
        )


def method_of(settings: Settings, sizes: Any) -> Method:
    """The method that the configuration names, for clients of these sizes."""
    if not settings.method:
        raise PLACE.key("method.name").error("missing; name a method, such as fedavg")
    return named_method(settings.method, settings.local, sizes, PLACE)


def one_phase(settings: Settings, method: Method, clients: int) -> bool:
    """Whether the clients that answer a train message in time are the active set; else a query is sent first."""
    policy = method.participation
    all_invited = policy.capacity(clients) >= clients
    asks = policy.needs_losses is not None and settings.losses == "asked"
    if settings.losses == "from-training" and policy.needs_losses == "all":
        raise FedtideError("losses = 'from-training': this policy needs the loss over all samples; must be 'asked'")
    if settings.phases == "one" and (asks or not all_invited):
        why = "the policy needs losses first" if asks else "the policy invites only some of the available clients"
        raise FedtideError(f"phases = 'one': {why}; must be 'auto' or 'two'")
    return settings.phases != "two" and all_invited and not asks


def check_late(settings: Settings, method: Method, stateful: bool) -> None:
    """Refuses late = "use" if the method cannot use late updates. `stateful`: clients have rows."""
    rule = method.aggregation
    if settings.late == "use" and (not rule.moves_when_empty or "change" not in rule.takes or stateful):
        wanted = "drop: only an aggregation that remembers updates, with stateless clients, can use them"
        raise FedtideError(f"late = 'use': must be {wanted}")
