"""Seeds in blocks that run apart from each other, perhaps on other machines, and end as one run.

Where seeds are in several blocks, each has a folder of its own, `checkpoints/000/0001` for the first method's second;
where all are in one, it is `checkpoints/000`. How they are shared out stands in `checkpoints/blocks.json`: a run that
is resumed keeps its blocks, wherever it goes on.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fedtide.errors import CheckpointError, number, require, whole
from fedtide.files import atomic

STATE = "state.safetensors"


def in_blocks(seeds: Sequence[int], size: int) -> list[list[int]]:
    """The seeds in their order, `size` at a time.

    >>> in_blocks([5, 6, 7], 2)
    [[5, 6], [7]]
    """
    return [list(seeds[i : i + size]) for i in range(0, len(seeds), size)]


def place_of(folder: Path, number: int, block: int, blocks: int) -> Path:
    """Where a block of the method with this number keeps its checkpoints."""
    place = folder / "checkpoints" / f"{number:03d}"
    return place if blocks == 1 else place / f"{block:04d}"


def piece(table: str, end: int) -> str:
    """The file with a table's records of the stretch that ended with that round."""
    return f"{table}-{end:08d}.parquet"


def refuse_strays(folder: Path, methods: int, blocks: int, ends: Iterable[int], clients: bool) -> None:
    """Raises `CheckpointError` where something lies among the checkpoints that such a run does not write.

    Stretches, and with them the names of files, are longer on a GPU.
    """
    root = folder / "checkpoints"
    tables = ("rounds", "clients") if clients else ("rounds",)
    names = {STATE, piece("rounds", 0), *(piece(table, end) for end in ends for table in tables)}
    places = {place_of(folder, method, block, blocks) for method in range(methods) for block in range(blocks)}
    known = {root / "blocks.json", *places, *(place.parent for place in places)}
    for path in sorted(root.rglob("[!.]*")):  # hidden files are the system's: .nfs…, .DS_Store
        if path not in known and not (path.parent in places and path.name in names):
            how = "move it elsewhere, or resume on the kind of hardware that the run began on"
            raise CheckpointError(f"{path}: does not belong to this run; {how}")


def pieces(place: Path, table: str) -> list[tuple[int, Path]]:
    """The files that a block has of a table, each with the round that it ends with, in order."""
    files = place.glob(f"{table}-{'[0-9]' * 8}.parquet")
    return sorted((int(file.stem.removeprefix(f"{table}-")), file) for file in files)


def rounds_done(place: Path) -> int | None:
    """Rounds whose records are there; None where the block has not begun."""
    return max((end for end, _ in pieces(place, "rounds")), default=None)


def of_all_seeds(blocks: Sequence[Sequence[int]], done: Iterable[int]) -> int:
    """Rounds done of a method: the mean over its seeds, which are as far as their blocks are."""
    seeds = sum(len(block) for block in blocks)
    return sum(len(block) * rounds for block, rounds in zip(blocks, done, strict=True)) // seeds


def write_blocks(folder: Path, size: int, **how: Any) -> None:
    """Keeps how the seeds are shared out, and where and with what the blocks run."""
    with atomic(folder / "checkpoints" / "blocks.json") as temporary:
        temporary.write_text(json.dumps({"seeds": size, **how}) + "\n", encoding="utf-8")


def read_blocks(folder: Path) -> dict[str, Any]:
    """What `write_blocks` kept; empty for a run that never left its process."""
    path = folder / "checkpoints" / "blocks.json"
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        require(isinstance(found, dict), "it", found, "a JSON object")
        whole("seeds", found.get("seeds"), 1)
        require(found.get("on", "local") in ("local", "ray"), "on", found.get("on"), "local or ray")
        number("cpus", found.get("cpus", 1.0), above=0)
        number("gpus", found.get("gpus", 0.0), low=0)
    except ValueError as error:  # no JSON, no UTF-8, or not what it must be
        raise CheckpointError(f"{path}: damaged ({error})") from error
    return found
