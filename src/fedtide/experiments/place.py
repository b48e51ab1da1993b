"""Positions in a configuration, for errors."""

from typing import NamedTuple

from fedtide.errors import FedtideError, InvalidInput


class Place(NamedTuple):
    """A file and a path of keys in it: `config.toml` and `methods[2].rate`."""

    source: str
    path: str = ""

    def key(self, name: str) -> "Place":
        return self._replace(path=f"{self.path}.{name}" if self.path else name)

    def item(self, index: int) -> "Place":
        return self._replace(path=f"{self.path}[{index}]")

    def error(self, message: str) -> FedtideError:
        """One line: file, path, what is wrong."""
        parts = (self.source, self.path, " ".join(message.split()))
        return FedtideError(": ".join(part for part in parts if part))

    def invalid(self, value: object, allowed: str) -> FedtideError:
        """One line: file, path, the value, what is allowed."""
        return FedtideError(f"{self.source}: {InvalidInput(self.path, value, allowed)}")
