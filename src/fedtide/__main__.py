"""The command `fedtide`, also as `python -m fedtide`. Ctrl-C while it still imports ends in one line as well."""

import sys


def main() -> None:
    try:
        from fedtide.cli import main as command
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)  # as `fedtide.cli.faults.STOPPED`, which could not be imported
    command()


if __name__ == "__main__":
    main()
