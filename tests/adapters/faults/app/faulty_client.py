"""A client that pulls the model to its own point, and misbehaves where `app.faults` says so (fault:client:round)."""

import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, RecordDict
from flwr.clientapp import ClientApp

from fedtide.adapters.flower import Answer, client

STEPS, EXAMPLES = 2, 10


def train(arrays, round):
    """Gradient descent on ½‖w − a_k‖²."""
    w = round.joined(arrays)
    target = np.random.default_rng(round.node["partition-id"]).normal(size=w.size).astype(w.dtype)
    correction, losses = round.joined(round.correction), []
    for step in range(STEPS):
        losses.append(0.5 * float(((w - target) ** 2).mean()))
        w = w - round.rate(step) * (w - target + correction)
    return Answer(round.split(w), EXAMPLES, STEPS, float(np.mean(losses)))


honest = client(train, examples=EXAMPLES)
app = ClientApp()
app.query("hello")(honest)


@app.train()
def misled(message, context):
    said, own = context.run_config["app.faults"], (context.node_config["client-id"], message.content["order"]["round"])
    faults = [fault.split(":") for fault in said.split(",") if fault]
    fault = next((what for what, client, turn in faults if (client, int(turn)) == own), "")
    if fault == "raise":
        raise RuntimeError("out of memory")
    marker = Path(context.run_config["app.markers"]) / f"{own[0]}-{own[1]}"
    if fault == "hang" and not marker.exists():  # the first time only
        marker.touch()
        end = time.monotonic() + 900
        while time.monotonic() < end and not marker.with_name("release").exists():
            time.sleep(0.5)
    return spoiled(honest(message, context), fault)


def spoiled(reply, fault):
    model = [array.numpy() for array in reply.content["model"].values()]
    if fault == "nan":
        model[0][0, 0] = np.nan
    elif fault == "shape":
        model[0] = model[0].ravel()
    elif fault == "norm":
        model[0] += np.float32(1e6)
    elif fault == "huge":
        model[0] = np.random.default_rng(0).random(25_000_000, np.float32)  # 100 MB
    elif fault == "count":
        reply.content["numbers"]["examples"] = -5
    content = RecordDict(dict(reply.content))
    content["model"] = ArrayRecord({str(i): Array(array) for i, array in enumerate(model)})
    reply.content = content
    return reply
