"""Flower's SuperNode, looking for messages ten times a second instead of every three: `python -m …quick_node ARGS`.

For try-outs on one machine. Only the waiting in its main loop is shortened; where Flower has changed, nothing is.
"""

import time
from types import ModuleType

_LONGEST = 0.1


def main() -> None:
    from flwr.supernode import start_client_internal as node
    from flwr.supernode.cli import flower_supernode

    if isinstance(getattr(node, "time", None), ModuleType):
        quick = ModuleType("time")
        quick.__dict__.update(vars(time))
        quick.sleep = lambda seconds: time.sleep(min(seconds, _LONGEST))  # pyright: ignore[reportAttributeAccessIssue]
        node.time = quick  # pyright: ignore[reportAttributeAccessIssue]
    flower_supernode()


if __name__ == "__main__":
    main()
