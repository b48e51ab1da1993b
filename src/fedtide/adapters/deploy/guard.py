"""Ends the processes of a federation whose own process was killed: `python -IS guard.py`, controlled through a pipe.

Reads lines "+GROUP" and "-GROUP". The pipe closes when its writer ends; the guard then ends these process groups.
It runs as a file, not as a module, so it starts quickly and needs little memory.
"""

# No supported way: Flower's `--parent-pid` ends SuperExec and apps with their parent, but SuperLink and SuperNode
# have no such option, and Linux's PR_SET_PDEATHSIG reaches neither their children nor other systems.

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
