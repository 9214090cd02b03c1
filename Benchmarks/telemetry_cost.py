#!/usr/bin/env python3
"""Measures the cost of telemetry: the same gateway with all telemetry enabled and disabled, in turn in one run.

Enabled are metrics, an access log into a file, and one trace in a hundred to a collector, as in production. The result is
the difference in CPU time of the gateway's process per request, in microseconds: the median of the differences within a
round, so that changes of the machine's speed between rounds have no effect. See README.md.
"""

import argparse
import copy
import json
import pathlib
import statistics

from comparison.scenarios import SCENARIOS, Setting
from harness.command import Failure, run_command
from harness.environment import BenchmarkEnvironment
from harness.gateway import release_build
from harness.http import request
from harness.ports import free_port
from harness.process import two_cores

OFF = "--set admin.enabled=false --set logging.accessLog=false --set tracing.exporter=none"
ON = "--set tracing.exporter=otlp --set tracing.ratio=0.01 --set tracing.otlp.endpoint=http://127.0.0.1:{port}/v1/traces"
BOUND = 3.0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--product", type=pathlib.Path, help="the gateway's binary; default: the release build's")
    parser.add_argument("--scenarios", default="h1,h1tls,h2", help="of h1, h1tls, h2; default: %(default)s")
    parser.add_argument("--rounds", type=int, default=5, help="samples of each; default: %(default)s")
    parser.add_argument("--seconds", type=int, default=4, help="length of a sample; default: %(default)s")
    options = parser.parse_args()
    cores = two_cores()
    binary = options.product or release_build()
    with BenchmarkEnvironment(upstream_core=cores[1]) as environment:
        port = free_port()
        environment.start_module("scenarios.collector", str(port), port=port, core=cores[1])
        # Both use one configuration file and its ports: only one runs at a time.
        plain = environment.product(binary)
        on, off = copy.copy(plain), copy.copy(plain)
        on.command = [*plain.command, *ON.format(port=port).split()]
        off.command = [*plain.command, *OFF.split()]
        gateways = {"off": off, "on": on}
        setting = Setting(environment, *cores, options.seconds, bulk_megabytes=0)
        names = options.scenarios.split(",")
        exceeded = [name for name in names if measure_difference(name, gateways, options.rounds, setting) > BOUND]
        _, _, body = request(f"http://127.0.0.1:{port}/count")
        spans = json.loads(body)["spans"]
        print(f"the collector received {spans} spans")
        if not spans:
            raise Failure("no trace reached the collector: the measurement does not include tracing")
    return 1 if exceeded else 0


def measure_difference(name, gateways, count, setting):
    """Prints the figures of one scenario and returns the difference in microseconds."""
    scenario = SCENARIOS[name]
    rounds = []
    for _ in range(count):
        samples = {each: scenario.measure(gateway, setting) for each, gateway in gateways.items()}
        if any(sample["unexpected"] for sample in samples.values()):
            raise Failure(f"{scenario.title}: unexpected responses")
        rounds.append({each: sample["cpu"] for each, sample in samples.items()})
    differences = [each["on"] - each["off"] for each in rounds]
    difference = statistics.median(differences)
    print(
        f"{scenario.title}: off {format_figures(each['off'] for each in rounds)}, on {format_figures(each['on'] for each in rounds)}, "
        f"difference {format_figures(differences)}, bound {BOUND} µs",
        flush=True,
    )
    return difference


def format_figures(figures):
    """The median and the range."""
    ordered = sorted(figures)
    return f"{statistics.median(ordered):.1f} µs ({ordered[0]:.1f}–{ordered[-1]:.1f})"


if __name__ == "__main__":
    run_command(main)
