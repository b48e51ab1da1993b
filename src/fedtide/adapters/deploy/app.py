"""App folders: written by `fedtide deploy init`, read by `fedtide deploy up`."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedtide.adapters.coordinator import refuse_training_while_absent
from fedtide.adapters.flower.settings import Settings, method_of, settings_of
from fedtide.errors import FedtideError, InvalidInput, did_you_mean, require
from fedtide.experiments.config import dotted
from fedtide.files import write_text
from fedtide.methods import CATALOGUE

# By framework: what its template needs in addition to Fedtide.
FRAMEWORKS = {"numpy": [], "sklearn": ["scikit-learn"], "torch": ["torch==2.13.0"], "jax": ["jax"]}
PROGRAM = "federation.py"
_RATE = 0.5  # suits the model of the templates


class App(NamedTuple):
    """An app folder and its configuration, the keys flat."""

    folder: Path
    config: dict[str, Any]

    @property
    def state(self) -> Path:
        """The folder that `fedtide deploy up` writes to."""
        return self.folder / "state"

    @property
    def keys(self) -> Path:
        return self.folder / "keys"

    def overridden(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Changes of the configuration for `flwr run`, with keys as spelled in it; it must contain all of them."""
        spelled = {_plain(key): key for key in self.config}
        for key in changes:
            if _plain(key) not in spelled:
                why = f"[tool.flwr.app.config] has no key {key}; add it, so that it can be overridden"
                raise FedtideError(f"{self.folder / 'pyproject.toml'}: {why}")
        return {spelled[_plain(key)]: value for key, value in changes.items()}

    def settings(self, changes: Mapping[str, Any]) -> Settings:
        """The settings with these changes; checks them and the method."""
        config = {**self.config, **self.overridden(changes)}
        try:
            return _checked(config)
        except FedtideError as error:
            raise FedtideError(f"{self.folder / 'pyproject.toml'}: {error}") from error


def write_app(folder: Path | str, method: str, framework: str, clients: Sequence[str]) -> list[Path]:
    """Writes the two files of an app."""
    folder = Path(folder)
    if framework not in FRAMEWORKS:
        raise InvalidInput("--framework", framework, ", ".join(FRAMEWORKS))
    if method not in CATALOGUE:
        raise FedtideError(f"--method: '{method}' is unknown; {did_you_mean(method, CATALOGUE)}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FedtideError(f"{folder}: exists and is not empty; choose another folder")
    check_ids(clients)
    templates = files("fedtide.adapters.deploy") / "templates"
    values = {
        "name": _name(folder.resolve().name),
        "method": method,
        "rate": _RATE,
        "clients": ",".join(clients),
        "dependencies": ", ".join(f'"{name}"' for name in ["fedtide[flower]", *FRAMEWORKS[framework]]),
    }
    text = (templates / "pyproject.toml.txt").read_text("utf-8")
    for key, value in values.items():
        text = text.replace(f"{{{key}}}", str(value))
    _checked(dotted(tomllib.loads(text)["tool"]["flwr"]["app"]["config"]))
    written = {"pyproject.toml": text, PROGRAM: (templates / f"{framework}.py.txt").read_text("utf-8")}
    return [write_text(folder / name, content) for name, content in written.items()]


def read_app(folder: Path | str) -> App:
    """The app of a folder."""
    folder = Path(folder).resolve()
    path = folder / "pyproject.toml"
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise FedtideError(f"{path}: there is no such file; fedtide deploy init writes one") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FedtideError(f"{path}: {error}") from None
    app = table.get("tool", {}).get("flwr", {}).get("app", {})
    if not isinstance(app, dict) or not isinstance(app.get("config"), dict):
        raise FedtideError(f"{path}: [tool.flwr.app.config] is missing; fedtide deploy init writes one")
    for name in ("serverapp", "clientapp"):
        if not isinstance(app.get("components", {}).get(name), str):
            raise FedtideError(f"{path}: [tool.flwr.app.components] has no {name}")
    return App(folder, dotted(app["config"]))


def ids_of(option: str, text: str) -> list[str]:
    """The clients "0", "1", … of a number, or their names separated by commas."""
    if re.fullmatch(r"\s*\d+\s*", text):
        return [str(k) for k in range(int(text))]
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise InvalidInput(option, text, "a number, or names separated by commas")
    return names


def check_ids(clients: Sequence[str], option: str = "--clients") -> None:
    from fedtide.adapters.ledger import check_client

    require(len(clients) > 0, option, 0, "1 or more")
    for client in clients:
        check_client(client)
        require(not set(client) & set('"\\,'), "client", client, "without quotes, backslashes and commas")
    require(len(set(clients)) == len(clients), option, ",".join(clients), "different names")


def _checked(config: Mapping[str, Any]) -> Settings:
    settings = settings_of(config)
    refuse_training_while_absent(method_of(settings, np.ones(max(len(settings.ids), 1), int)))
    return settings


def _plain(key: str) -> str:
    return key.replace("-", "_")


def _name(folder: str) -> str:
    """A name that Flower accepts: letters, digits and hyphens, beginning with a letter, at most 32."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", folder).strip("-").lower()
    return (name if name[:1].isalpha() else f"app-{name}").strip("-")[:32]
