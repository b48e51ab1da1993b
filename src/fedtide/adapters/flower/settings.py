"""The run's settings: flat keys of [tool.flwr.app.config], such as `method.name`, `deadline.least`, `rounds`.

Keys may be written with hyphens or underscores. `method.*` names a method and its arguments, `local.*` its work
(steps or epochs, and batch), as in configurations of experiments; `app.*` is the user's own and is not looked at.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fedtide.errors import FedtideError, number, require, whole
from fedtide.experiments.arguments import call
from fedtide.experiments.build import named_method
from fedtide.experiments.place import Place
from fedtide.methods.base import Method

PLACE = Place("[tool.flwr.app.config]")


class DeadlineSettings(NamedTuple):
    """Seconds that a phase of a round may last: `start` at first, then what clients turn out to need."""

    least: float = 5.0
    most: float = 600.0
    start: float = 60.0


class CheckSettings(NamedTuple):
    """What an update may be. None: no limit."""

    most_norm: float | None = None  # of the change of the model
    times_median: float | None = 100.0  # norm, rate or mass against the round's median
    most_bytes: int | None = None  # of a reply; by default what the method needs, and a megabyte
    clip: float | None = None  # longer updates are shortened to this norm


class Settings(NamedTuple):
    """All but the method."""

    rounds: int
    run: str = "run"
    seed: int = 0
    state: str = "fedtide-state"  # the folder of checkpoint and ledger
    ledger: str = ""  # a URL; by default ledger.db in the state folder
    keys: str = ""  # a folder with the clients' public keys, NAME.pub: who has another's key is refused
    clients: str = ""  # ids, separated by commas; by default whoever enrols
    min_clients: int = 1
    enrol_seconds: float = 60.0
    importance: Literal["uniform", "size"] = "size"
    phases: Literal["auto", "one", "two"] = "auto"
    losses: Literal["asked", "from-training"] = "asked"
    late: Literal["drop", "use"] = "drop"
    lost_memory: Literal["refuse", "restart"] = "refuse"
    history: Literal["ledger", "none"] = "ledger"  # what estimators know of earlier runs
    evaluate_every: int = 0  # rounds; 0: never
    round_seconds: float = 0.0  # the least that a round lasts; 0: rounds follow each other while somebody is there
    poll_seconds: float = 0.2  # between two looks for answers
    deadline: DeadlineSettings = DeadlineSettings()
    checks: CheckSettings = CheckSettings()

    @property
    def ids(self) -> list[str]:
        """The listed clients; none where whoever enrols is taken."""
        return [name.strip() for name in self.clients.split(",") if name.strip()]

    @property
    def folder(self) -> Path:
        return Path(self.state).expanduser() / self.run

    @property
    def ledger_url(self) -> str:
        return self.ledger or str(Path(self.state).expanduser() / "ledger.db")


class Tables(NamedTuple):
    """A flat configuration as tables."""

    method: dict[str, Any]
    local: dict[str, Any]
    problem: dict[str, Any]
    groups: dict[str, dict[str, Any]]
    plain: dict[str, Any]


def tables(config: Mapping[str, Any]) -> Tables:
    """The keys by what stands before their first dot."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        *path, last = key.replace("-", "_").split(".")
        place = found
        for step in path:
            place = place.setdefault(step, {})
            if not isinstance(place, dict):
                raise PLACE.key(key).error(f"there is a value called {step}, too")
        place[last] = value
    own = {name: found.pop(name, {}) for name in ("method", "local", "problem", "deadline", "checks", "app")}
    for name, table in own.items():
        if not isinstance(table, dict):
            raise PLACE.key(name).invalid(table, f"keys {name}.…")
    groups = {name: own[name] for name in ("deadline", "checks")}
    return Tables(own["method"], own["local"], own["problem"], groups, found)


def settings_of(config: Mapping[str, Any]) -> Settings:
    """The run's settings; bad ones are one line with the key."""
    found = tables(config)
    deadline = call(DeadlineSettings, found.groups["deadline"], PLACE.key("deadline"))
    checks = call(CheckSettings, found.groups["checks"], PLACE.key("checks"))
    settings = call(Settings, found.plain, PLACE)._replace(deadline=deadline, checks=checks)
    try:
        _check(settings)
    except FedtideError as error:
        raise PLACE.error(str(error)) from None
    return settings


def method_of(config: Mapping[str, Any], sizes: Any) -> Method:
    """The method that the configuration names, for clients of these sizes."""
    found = tables(config)
    if not found.method:
        raise PLACE.key("method.name").error("missing; name a method, such as fedavg")
    return named_method(found.method, found.local, sizes, PLACE)


def _check(settings: Settings) -> None:
    for name, low in (("rounds", 1), ("min_clients", 1), ("evaluate_every", 0)):
        whole(name, getattr(settings, name), low)
    whole("seed", settings.seed, 0, 2**32 - 1)
    run, ids = settings.run, settings.ids
    require(run != "" and run == Path(run).name and run not in (".", ".."), "run", run, "a name that a folder can have")
    require(len(set(ids)) == len(ids), "clients", settings.clients, "different ids, separated by commas")
    number("enrol_seconds", settings.enrol_seconds, low=0)
    number("round_seconds", settings.round_seconds, low=0)
    number("poll_seconds", settings.poll_seconds, above=0)
    least, most, start = settings.deadline
    number("deadline.least", least, above=0)
    number("deadline.most", most, low=least)
    number("deadline.start", start, low=least, high=most)
    for name, low in (("most_norm", 0), ("times_median", 1), ("clip", 0), ("most_bytes", 0)):
        value = getattr(settings.checks, name)
        if value is not None:
            number(f"checks.{name}", value, above=low)


def one_phase(settings: Settings, method: Method, clients: int) -> bool:
    """Whether whoever answers a train message in time is the active set; else a query comes before."""
    policy = method.participation
    all_invited = policy.capacity(clients) >= clients
    asks = policy.needs_losses is not None and settings.losses == "asked"
    if settings.losses == "from-training" and policy.needs_losses == "all":
        raise FedtideError("losses = 'from-training': this policy wants the loss over all samples; must be 'asked'")
    if settings.phases == "one" and (asks or not all_invited):
        why = "the policy asks for losses first" if asks else "the policy invites only some of those who are there"
        raise FedtideError(f"phases = 'one': {why}; must be 'auto' or 'two'")
    return settings.phases != "two" and all_invited and not asks


def check_late(settings: Settings, method: Method, remembers: bool) -> None:
    """Refuses late = "use" where no memory could hold a late update. `remembers`: clients have rows of their own."""
    rule = method.aggregation
    if settings.late == "use" and (not rule.moves_when_empty or "change" not in rule.takes or remembers):
        wanted = "drop: only an aggregation that remembers updates, with clients that remember nothing, can use them"
        raise FedtideError(f"late = 'use': must be {wanted}")
