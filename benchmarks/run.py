"""Runs the benchmarks, prints tables and writes JSON.

python benchmarks/run.py                      # all: rounds and models (against PyTorch), checks, methods, scale …
python benchmarks/run.py rounds --no-torch --replicas 1 100 --json out.json
python benchmarks/run.py models --models lenet5 resnet9
taskset -c 0 python benchmarks/run.py models  # on one core, in CPU time, for a busy machine
python benchmarks/run.py models --profile     # where a network's time is spent
"""

import argparse

import barriers
import demo
import methods
import models
import rounds
import scale
from common import machine, print_table, write_json


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    everything = ["rounds", "checks", "models", "methods", "scale", "barriers", "demo"]
    parser.add_argument("which", nargs="*", choices=[*everything, []], help="default: all")
    parser.add_argument("--no-torch", action="store_true", help="omit the comparison with PyTorch, which needs torch")
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 10], help="numbers of replicas per program")
    parser.add_argument("--methods", nargs="+", help="with methods: only these methods")
    parser.add_argument("--models", nargs="+", choices=models.NAMES, help="with models: only these networks")
    parser.add_argument("--chunk", type=int, help="with models: number of clients trained at a time")
    parser.add_argument("--profile", action="store_true", help="with models: also passes, layers, other convolutions")
    parser.add_argument("--json", help="write the numbers to this file")
    options = parser.parse_args()
    which = options.which or everything
    results: dict[str, object] = {"machine": machine()}
    print_table("Machine (rates of one large float32 product and one large copy)", [results["machine"]])  # pyright: ignore
    if "rounds" in which:
        results["rounds"] = rounds.measure(results["machine"], options.replicas, not options.no_torch)  # pyright: ignore
        print_table("A round: 50 of 100 clients, 60→10 softmax regression, 5 steps of 32 samples", results["rounds"])  # pyright: ignore
    if "checks" in which:
        results["checks"] = rounds.checks()
        print_table("Cost of checking every decision in the same round", results["checks"])  # pyright: ignore
    if "models" in which:
        results["models"] = models.measure(not options.no_torch, options.profile, options.models, options.chunk)
        print_table("A round of a network: clients × steps × batch, of 30 clients", results["models"])  # pyright: ignore
    if "methods" in which:
        results["methods"] = methods.measure(options.methods)
        print_table("A round of every method, relative to FedAvg with as many clients", results["methods"])  # pyright: ignore
    if "scale" in which:
        results["scale"] = scale.measure()
        print_table("Availability + Bayesian estimate + CA-Fed decision, one round", results["scale"])  # pyright: ignore
    if "barriers" in which:
        results["barriers"] = {"steps": barriers.table(), "fleet": barriers.fleet()}
        print_table("A server step with a clock, relative to a round without one", results["barriers"]["steps"])
        print_table("Asynchronous training of a large fleet", [results["barriers"]["fleet"]])
    if "demo" in which:
        results["demo"] = demo.measure()
        print_table("fedtide demo, complete process", results["demo"])  # pyright: ignore
    write_json(options.json, results)


if __name__ == "__main__":
    main()
