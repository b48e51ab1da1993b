"""Reads the "python version" of CIFAR, which is published as pickles, without executing code from them.

A pickle is a program that can call anything it can import, so Fedtide writes no pickles and does not use Python's
unpickler as it is. The unpickler here imports nothing. It supports numbers, texts, lists, tuples and dictionaries, and
the names with which NumPy writes an array of bytes; each of these names maps to an object that does only this one
thing, and NumPy receives only the shape and the bytes in the end.
"""

import io
import pickle
import pickletools
from typing import Any

import numpy as np

from fedtide.data.base import File, wrong

_MOST_MEMO = 10**6  # a published batch has at most 100,000 entries
_MOST_TUPLES = 1000  # and about ten tuples
_ENDS = ("exhausted", "not enough data", "remain", "no newline")  # in messages of pickletools about truncated pickles


class _Array:
    """An array under construction: its state follows."""

    __slots__ = ("value",)

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, by_columns, content = state
        if not isinstance(kind, _Byte) or not isinstance(content, bytes):
            raise pickle.UnpicklingError("an array that is not of bytes")
        self.value = np.frombuffer(content, np.uint8).reshape(shape, order="F" if by_columns else "C")


class _Byte:
    """The type of unsigned bytes; its state is ignored."""

    __slots__ = ()

    def __setstate__(self, state: Any) -> None:
        pass


class _Reconstruct:
    __slots__ = ()

    def __call__(self, *arguments: Any) -> _Array:
        return _Array()


class _Type:
    __slots__ = ()

    def __call__(self, code: Any, *flags: Any) -> _Byte:
        if code not in ("u1", b"u1"):
            raise pickle.UnpicklingError(f"an array of type {code!r}")
        return _Byte()


class _Encode:
    """How Python 3 writes bytes in the protocols of Python 2."""

    __slots__ = ()

    def __call__(self, text: Any, coding: Any) -> bytes:
        if not isinstance(text, str) or coding not in ("latin1", b"latin1"):
            raise pickle.UnpicklingError("an encoding that is not latin-1")
        return text.encode("latin-1")


_KNOWN = {
    ("numpy.core.multiarray", "_reconstruct"): _Reconstruct(),
    ("numpy._core.multiarray", "_reconstruct"): _Reconstruct(),
    ("numpy", "ndarray"): "ndarray",
    ("numpy", "dtype"): _Type(),
    ("_codecs", "encode"): _Encode(),
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _KNOWN:
            raise pickle.UnpicklingError(f"it imports {module}.{name}")
        return _KNOWN[module, name]

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to an external object")


def unpickled(file: File) -> dict[str, Any]:
    """The dictionary of a batch, with keys as text (Python 2 wrote bytes)."""
    try:
        _check(file.content)
        found = _Unpickler(io.BytesIO(file.content), encoding="bytes").load()
    except EOFError:
        wrong(file.where, f"truncated: the pickle does not end within its {len(file.content):,} bytes")
    except Exception as error:  # a damaged pickle can fail in any way
        words = "truncated" if "truncated" in str(error) else "not a batch of images"
        wrong(file.where, f"{words}: {' '.join(str(error).split()) or type(error).__name__}")
    if not isinstance(found, dict):
        wrong(file.where, f"a dictionary of images and labels expected, {type(found).__name__} found")
    if not all(isinstance(key, str | bytes) for key in found):
        wrong(file.where, "not a batch of images: texts expected as keys")
    return {_text(key): getattr(value, "value", value) for key, value in found.items()}


def _text(key: bytes | str) -> str:
    return key.decode("latin-1") if isinstance(key, bytes) else key


def _check(content: bytes) -> None:
    """Rejects pickles that need much more memory or stack than their size, by their opcodes, which are not executed.

    The memo is as long as its highest index, memory is allocated before contents are read, and hashing a tuple
    recurses into all tuples in it.
    """
    tuples = 0
    try:
        for code, argument, _ in pickletools.genops(content):
            tuples += code.name.startswith("TUPLE")
            if code.name.endswith("PUT") and isinstance(argument, int) and argument > _MOST_MEMO:
                raise pickle.UnpicklingError(f"a memo of {argument:,} entries")
            if tuples > _MOST_TUPLES:
                raise pickle.UnpicklingError(f"more than {_MOST_TUPLES:,} tuples")
    except ValueError as error:
        if any(words in str(error) for words in _ENDS):
            raise EOFError from None
        raise
