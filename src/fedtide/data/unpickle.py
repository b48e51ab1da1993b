"""The "python version" of CIFAR, which is published as pickles, read without running what a pickle may ask for.

A pickle is a program: it can call anything that it can import, so Fedtide writes none and loads none as Python would.
These are read by an unpickler that imports nothing. It knows numbers, texts, lists, tuples and dictionaries, and the
four names with which NumPy writes an array of bytes; each stands for an object of ours that can do that one thing, and
NumPy itself sees only the shape and the bytes in the end.
"""

import io
import pickle
import pickletools
from typing import Any

import numpy as np

from fedtide.data.base import File, wrong

_MOST_MEMO = 10**6  # a published batch has 100,000 entries or fewer
_MOST_TUPLES = 1000  # and some ten tuples
_ENDS = ("exhausted", "not enough data", "remain", "no newline")  # of pickletools, where a pickle is cut off


class _Array:
    """An array in the making: its state comes after it."""

    __slots__ = ("value",)

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, by_columns, content = state
        if not isinstance(kind, _Byte) or not isinstance(content, bytes):
            raise pickle.UnpicklingError("an array that is not of bytes")
        self.value = np.frombuffer(content, np.uint8).reshape(shape, order="F" if by_columns else "C")


class _Byte:
    """The type of unsigned bytes; its state says nothing more."""

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
    """Python 3 writes bytes so in the protocols of Python 2."""

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
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return _KNOWN[module, name]

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it asks for something outside")


def unpickled(file: File) -> dict[str, Any]:
    """The dictionary of a batch. Texts are bytes in what Python 2 wrote; the keys are texts here."""
    try:
        _check(file.content)
        found = _Unpickler(io.BytesIO(file.content), encoding="bytes").load()
    except EOFError:
        wrong(file.where, f"truncated: the pickle does not end within its {len(file.content):,} bytes")
    except Exception as error:  # a damaged pickle can fail in any way
        words = "truncated" if "truncated" in str(error) else "not a batch of images, so it was not read"
        wrong(file.where, f"{words}: {' '.join(str(error).split()) or type(error).__name__}")
    if not isinstance(found, dict):
        wrong(file.where, f"a dictionary of images and labels expected, {type(found).__name__} found")
    if not all(isinstance(key, str | bytes) for key in found):
        wrong(file.where, "not a batch of images: texts expected as keys")
    return {_text(key): getattr(value, "value", value) for key, value in found.items()}


def _text(key: bytes | str) -> str:
    return key.decode("latin-1") if isinstance(key, bytes) else key


def _check(content: bytes) -> None:
    """Refuses what costs the unpickler memory or stack beyond the pickle's size: its opcodes, one by one, not run.

    The memo is as long as its highest index, lengths are reserved before they are read, and the hash of a tuple goes
    down all the tuples in it.
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
