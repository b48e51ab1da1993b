"""Time of `fedtide demo` from a cold start (a new process and an empty compilation cache), then with the cache."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"


def measure() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
        environment = os.environ | {"XDG_CACHE_HOME": folder, "PYTHONPATH": path}
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        for name in ("cold", "second"):
            command = [sys.executable, "-m", "fedtide", "demo", "--out", str(Path(folder) / name)]
            begun = time.perf_counter()
            subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            rows.append({"demo": name, "seconds": time.perf_counter() - begun})
    return rows
