"""Flower's SuperNode, looking for messages every 0.4 seconds instead of every three: `python -m …quick_node ARGS`.

For try-outs on one machine. Only the waiting in its main loop is shortened; where Flower has changed, nothing is.
"""

import time
from types import ModuleType

_LONGEST = 0.4  # seconds; each look costs SuperNode and SuperLink some milliseconds of CPU


def main() -> None:
    from flwr.supernode import start_client_internal as node
    from flwr.supernode.cli import flower_supernode

    if isinstance(getattr(node, "time", None), ModuleType):
        quick = ModuleType("time")
        quick.__dict__.update(vars(time))
        quick.sleep = lambda seconds: time.sleep(min(seconds, _LONGEST))  # pyright: ignore[reportAttributeAccessIssue]
        node.time = quick  # pyright: ignore
    flower_supernode()


if __name__ == "__main__":
    main()
