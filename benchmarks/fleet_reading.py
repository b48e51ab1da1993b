"""Seconds and peak memory of reading large logs, each in its own process, with the limits.

python benchmarks/fleet_reading.py                        # ten million rows of each file
python benchmarks/fleet_reading.py --rows 1000000 --json out.json

The limits are a minute and 2 GB for ten million rows. For comparison, the table also has the size of the file, and
the time and memory that polars needs to scan the columns for their maxima, without accounting for rows, encoding
devices or sorting.
"""

import argparse
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

SOURCE = Path(__file__).resolve().parent.parent / "src"
LIMITS = {"seconds": 60.0, "GB": 2.0}  # for ten million rows
_MEASURE = """
import resource, sys, time, json
sys.path.insert(0, sys.argv[1])
import polars as pl
{imports}
begun = time.perf_counter()
{work}
seconds = time.perf_counter() - begun
print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, {result}]))
"""
_READ = _MEASURE.format(
    imports="from fedtide.fleet import read",
    work="log = read(sys.argv[2], **json.loads(sys.argv[3]))",
    result="log.account.rows",
)
_SCAN = _MEASURE.format(
    imports="scans = {'csv': pl.scan_csv, 'gz': pl.scan_csv, 'parquet': pl.scan_parquet, 'jsonl': pl.scan_ndjson}",
    work="rows = scans[sys.argv[2].rsplit('.', 1)[1]](sys.argv[2]).select(pl.all().max(), pl.len()).collect()",
    result="rows['len'].item()",
)


def measure(rows: int, kinds: list[str]) -> list[dict[str, object]]:
    """One row per file."""
    table = []
    with tempfile.TemporaryDirectory() as folder:
        for name in kinds:
            path, arguments = _write(Path(folder), name, rows)
            seconds, memory, read = _run(_READ, path, arguments)
            plain, plain_memory, scanned = _run(_SCAN, path, arguments)
            if not read == scanned == rows:
                raise SystemExit(f"{name}: {read} rows read, {scanned} scanned, {rows} written")
            table.append(
                {
                    "file": name,
                    "rows": rows,
                    "MB": path.stat().st_size / 1e6,
                    "seconds": seconds,
                    "limit s": LIMITS["seconds"] * rows / 1e7,
                    "peak GB": memory,
                    "limit GB": LIMITS["GB"],
                    "MB/s": path.stat().st_size / 1e6 / seconds,
                    "plain scan s": plain,
                    "plain scan GB": plain_memory,
                }
            )
            path.unlink()
    return table


def _write(folder: Path, name: str, rows: int) -> tuple[Path, dict[str, object]]:
    """A shuffled log of 100,000 devices (or a hundredth of the rows) over thirty days; overlaps occur."""
    rng = np.random.default_rng(0)
    form, _, ending = name.partition(".")
    devices = max(1, rows // 100)
    start = 1_700_000_000 + rng.integers(0, 30 * 86_400, rows)
    device = pl.Series(rng.integers(0, devices, rows)).cast(pl.String).str.zfill(8)
    table = pl.DataFrame({"device": "phone-" + device, "start": start, "end": start + rng.integers(60, 7200, rows)})
    if form == "heartbeats":
        table = table.select("device", pl.col("start").alias("time"))
    if form == "iso":
        table = table.with_columns(pl.from_epoch(pl.col("start", "end")).dt.strftime("%Y-%m-%dT%H:%M:%SZ"))
    path = folder / f"log.{ending}"
    if ending == "parquet":
        table.write_parquet(path)
    elif ending == "jsonl":
        table.write_ndjson(path)
    else:
        table.write_csv(folder / "log.csv")
    if ending == "csv.gz":
        with (folder / "log.csv").open("rb") as plain, gzip.open(path, "wb", compresslevel=1) as packed:
            shutil.copyfileobj(plain, packed, 2**20)
        (folder / "log.csv").unlink()
    return path, {"gap": 43_200} if form == "heartbeats" else {}


def _run(program: str, path: Path, arguments: dict[str, object]) -> tuple[float, float, int]:
    command = [sys.executable, "-c", program, str(SOURCE), str(path), json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    seconds, memory, rows = json.loads(done.stdout)
    return seconds, memory, rows


KINDS = ["intervals.csv", "intervals.csv.gz", "intervals.parquet", "intervals.jsonl", "heartbeats.csv", "iso.csv"]


def main() -> None:
    from common import print_table, write_json

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10**7)
    parser.add_argument("--files", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--json", help="write the numbers to this file")
    options = parser.parse_args()
    table = measure(options.rows, options.files)
    print_table("Reading a log", table)
    write_json(options.json, {"reading": table})


if __name__ == "__main__":
    main()
