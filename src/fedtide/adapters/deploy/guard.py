"""Ends the processes of a try-out whose own process was killed: `python -IS guard.py`, fed through a pipe.

Reads "+GROUP" and "-GROUP" lines; when the pipe closes, whoever wrote them is gone, and so are these groups soon.
Run as a file, not as a module: it starts at once, and holds no memory worth speaking of.
"""

import contextlib
import os
import signal
import sys
import time


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    groups: dict[int, None] = {}
    for line in sys.stdin:
        if line[:1] == "+":
            groups[int(line[1:])] = None
        else:
            groups.pop(int(line[1:]), None)
    for how, seconds in ((signal.SIGTERM, 3.0), (signal.SIGKILL, 0.0)):
        for group in groups:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, how)
        time.sleep(seconds if groups else 0.0)


if __name__ == "__main__":
    main()
