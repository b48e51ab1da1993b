"""Blocks of seeds that run separately, perhaps on several machines, and are joined into one run.

With several blocks of seeds, each has its own folder: `checkpoints/000/0001` is the second block of the first method.
With one block it is `checkpoints/000`. The division is stored in `checkpoints/blocks.json`: a resumed run keeps its
blocks, on any machine.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from fedtide.errors import CheckpointError, check_one_of, number, whole
from fedtide.files import write_text

STATE = "state.safetensors"


def in_blocks(seeds: Sequence[int], size: int) -> list[list[int]]:
    """The seeds in their order, `size` at a time.

    >>> in_blocks([5, 6, 7], 2)
    [[5, 6], [7]]
    """
    return [list(seeds[i : i + size]) for i in range(0, len(seeds), size)]


def blocks_of(folder: Path, seeds: Sequence[int]) -> list[list[int]]:
    """The seeds of the run in this folder, block by block."""
    return in_blocks(seeds, read_sharing(folder, len(seeds)).seeds)


def place_of(folder: Path, number: int, block: int, blocks: int) -> Path:
    """The checkpoint folder of a block of the method with this number."""
    place = folder / "checkpoints" / f"{number:03d}"
    return place if blocks == 1 else place / f"{block:04d}"


def piece(table: str, end: int) -> str:
    """The file with a table's records of the segment that ends with that round."""
    return f"{table}-{end:08d}.parquet"


def refuse_strays(folder: Path, methods: int, blocks: int, ends: Iterable[int], clients: bool) -> None:
    """Raises `CheckpointError` for a file among the checkpoints that such a run does not write.

    Segments are longer on a GPU, and file names are different there.
    """
    root = folder / "checkpoints"
    tables = ("rounds", "clients") if clients else ("rounds",)
    names = {STATE, piece("rounds", 0), *(piece(table, end) for end in ends for table in tables)}
    places = {place_of(folder, method, block, blocks) for method in range(methods) for block in range(blocks)}
    known = {root / "blocks.json", *places, *(place.parent for place in places)}
    for path in sorted(root.rglob("[!.]*")):  # hidden files are the system's: .nfs…, .DS_Store
        if path not in known and not (path.parent in places and path.name in names):
            how = "move it elsewhere, or resume on the kind of hardware on which the run began"
            raise CheckpointError(f"{path}: does not belong to this run; {how}")


def pieces(place: Path, table: str) -> list[tuple[int, Path]]:
    """A block's files of a table, each with its last round, in order."""
    files = place.glob(f"{table}-{'[0-9]' * 8}.parquet")
    return sorted((int(file.stem.removeprefix(f"{table}-")), file) for file in files)


def rounds_done(place: Path) -> int | None:
    """The last round with records; None where the block has not begun."""
    return max((end for end, _ in pieces(place, "rounds")), default=None)


def of_all_seeds(blocks: Sequence[Sequence[int]], done: Iterable[int]) -> int:
    """Rounds done of a method: the mean over its seeds, each as far as its block."""
    seeds = sum(len(block) for block in blocks)
    return sum(len(block) * rounds for block, rounds in zip(blocks, done, strict=True)) // seeds


class Sharing(NamedTuple):
    """How a run's seeds are divided into blocks, and where and with which resources these run."""

    seeds: int  # in a block
    on: Literal["local", "ray"] = "local"
    cpus: float = 1.0
    gpus: float | None = None


def write_sharing(folder: Path, sharing: Sharing) -> None:
    write_text(folder / "checkpoints" / "blocks.json", json.dumps(sharing._asdict()) + "\n")


def read_sharing(folder: Path, seeds: int) -> Sharing:
    """What `write_sharing` stored; without a file all `seeds` are in one block, in one process."""
    path = folder / "checkpoints" / "blocks.json"
    if not path.exists():
        return Sharing(seeds)
    try:
        sharing = Sharing(**json.loads(path.read_text(encoding="utf-8")))
        whole("seeds", sharing.seeds, 1)
        check_one_of("on", sharing.on, ("local", "ray"))
        number("cpus", sharing.cpus, above=0)
        number("gpus", sharing.gpus or 0.0, low=0)
    except (ValueError, TypeError) as error:  # no JSON, no UTF-8, or not what it must be
        raise CheckpointError(f"{path}: damaged ({error})") from error
    return sharing
