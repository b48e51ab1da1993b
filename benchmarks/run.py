"""All benchmarks: prints tables, writes JSON.

python benchmarks/run.py                      # rounds and models (against PyTorch), checks, methods, scale, demo
python benchmarks/run.py rounds --no-torch --replicas 1 100 --json out.json
python benchmarks/run.py models --models lenet5 resnet9
taskset -c 0 python benchmarks/run.py models  # on one core, by CPU time: for a busy machine
python benchmarks/run.py models --profile     # where a network's time goes
"""

import argparse

import demo
import methods
import models
import rounds
import scale
from common import machine, print_table, write_json


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    everything = ["rounds", "checks", "models", "methods", "scale", "demo"]
    parser.add_argument("which", nargs="*", choices=[*everything, []], help="default: all")
    parser.add_argument("--no-torch", action="store_true", help="leave out the comparison (needs torch)")
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 10], help="replicas that run side by side")
    parser.add_argument("--methods", nargs="+", help="these methods only, in the table of methods")
    parser.add_argument("--models", nargs="+", choices=models.NAMES, help="these networks only, in the table of models")
    parser.add_argument("--chunk", type=int, help="with models: clients trained at a time")
    parser.add_argument("--profile", action="store_true", help="with models: also passes, layers, other convolutions")
    parser.add_argument("--json", help="write the numbers to this file")
    options = parser.parse_args()
    which = options.which or everything
    found: dict[str, object] = {"machine": machine()}
    print_table("The machine (measured: one large float32 product, one large copy)", [found["machine"]])  # pyright: ignore
    if "rounds" in which:
        found["rounds"] = rounds.measure(found["machine"], options.replicas, not options.no_torch)  # pyright: ignore
        print_table("A round: 50 of 100 clients, 60→10 softmax regression, 5 steps of batch 32", found["rounds"])  # pyright: ignore
    if "checks" in which:
        found["checks"] = rounds.checks()
        print_table("What checking every decision costs, in the same round", found["checks"])  # pyright: ignore
    if "models" in which:
        found["models"] = models.measure(not options.no_torch, options.profile, options.models, options.chunk)
        print_table("A round of a network: clients × steps × batch, of 30 clients", found["models"])  # pyright: ignore
    if "methods" in which:
        found["methods"] = methods.measure(options.methods)
        print_table("A round of every method, relative to FedAvg with as many clients", found["methods"])  # pyright: ignore
    if "scale" in which:
        found["scale"] = scale.measure()
        print_table("Availability + Bayesian estimate + CA-Fed decision, one round", found["scale"])  # pyright: ignore
    if "demo" in which:
        found["demo"] = demo.measure()
        print_table("fedtide demo, whole process", found["demo"])  # pyright: ignore
    write_json(options.json, found)


if __name__ == "__main__":
    main()
