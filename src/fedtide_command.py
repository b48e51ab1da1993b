"""The entry point of the command `fedtide`: Ctrl-C while Python still imports the package ends in one line as well.

It is a module of its own since importing any module of a package imports the package first.
"""

import sys


def main() -> None:
    try:
        from fedtide.cli import main as command
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)  # as `fedtide.cli.faults.STOPPED`, which could not be imported
    command()
