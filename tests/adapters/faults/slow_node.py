"""Flower's SuperNode, whose replies stop after their first object while the file that FEDTIDE_SLOW names is there."""

import os
import time
from pathlib import Path

from flwr.supernode import start_client_internal as node
from flwr.supernode.cli import flower_supernode

marker = Path(os.environ["FEDTIDE_SLOW"])
push = node.push_object_contents_from_iterable


def slowly(contents, push_object_fn):
    for i, content in enumerate(contents):
        while i and marker.exists():
            marker.with_name("stuck").touch()
            time.sleep(0.2)
        push([content], push_object_fn)


node.push_object_contents_from_iterable = slowly
flower_supernode()
