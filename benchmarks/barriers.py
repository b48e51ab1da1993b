"""The cost of a clock: the round of `rounds` under each barrier, and asynchronous training of a large fleet."""

import numpy as np
from common import best_of
from rounds import CLIENTS, COHORT, compiled_segment, first_segment, segment_seconds

from fedtide.clock import Buffer, Clock, Deadline, Devices, Lognormal, WaitForAll

FLEET, CONCURRENCY, BUFFER = 100_000, 1_000, 100


def clocks(clients: int) -> dict[str, Clock | None]:
    """Tasks of five seconds in the mean, in slots of a minute."""
    devices = Devices(np.linspace(0.5, 1.5, clients), jitter=Lognormal(0.5))
    return {
        "no clock": None,
        "WaitForAll": Clock(devices, WaitForAll()),
        "Deadline(10)": Clock(devices, Deadline(10.0)),
        f"Buffer({COHORT}, {COHORT})": Clock(devices, Buffer(COHORT, COHORT)),
    }


def table(replicas: int = 1) -> list[dict[str, object]]:
    """Milliseconds per server step and replica, and relative to rounds without a clock."""
    rows: list[dict[str, object]] = []
    for name, clock in clocks(CLIENTS).items():
        seconds = segment_seconds(*first_segment(replicas, clock=clock))["seconds"]
        before = rows[0]["ms per step"] if rows else 1e3 * seconds
        rows.append({"barrier": name, "ms per step": 1e3 * seconds, "relative": 1e3 * seconds / before})  # pyright: ignore
    return rows


def fleet() -> dict[str, object]:
    """Events per second with many clients: each server step has as many starts and as many arrivals as the buffer."""
    devices = Devices(np.geomspace(0.1, 10, FLEET), jitter=Lognormal(0.5))
    setup, method = first_segment(1, FLEET, Clock(devices, Buffer(BUFFER, CONCURRENCY)))
    run, _ = compiled_segment(setup, method)
    seconds = best_of(run, repetitions=2) / setup.plan[0].length
    return {"clients": FLEET, "ms per step": 1e3 * seconds, "events per second": 2 * BUFFER / seconds}
