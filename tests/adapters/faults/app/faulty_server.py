"""A server that is killed where `app.faults` says so, once: after a round was written down, before its checkpoint."""

import os
import signal
from pathlib import Path

import numpy as np
from flwr.serverapp import ServerApp

from fedtide.adapters.flower.servers import serve
from fedtide.adapters.flower.state import ServerState

START = [np.zeros((100, 100), np.float32), np.zeros(100, np.float32)]
app = ServerApp()
save = ServerState.save


@app.main()
def main(grid, context):
    faults = [fault.split(":") for fault in context.run_config["app.faults"].split(",") if fault]
    fatal = {int(turn) for what, who, turn in faults if (what, who) == ("kill", "server")}

    def deadly(state, coordinator, clients, rounds):
        marker = Path(context.run_config["app.markers"]) / f"server-{rounds - 1}"
        if rounds - 1 in fatal and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        save(state, coordinator, clients, rounds)

    ServerState.save = deadly
    serve(grid, context.run_config, START)
