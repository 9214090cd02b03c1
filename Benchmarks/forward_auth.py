#!/usr/bin/env python3
"""Measures the latency of an nginx with `auth_request`: to the gateway, and to an nginx that permits each request with the same
fields. Both in turn, in one run, at the same constant rate.

The figure is the ratio of the two p99, the median over the rounds; the goal is at most 1.3. See README.md.
"""

import argparse
import pathlib
import statistics

from comparison.loads import PROTOCOLS, OpenLoop
from harness.command import Failure, run_command
from harness.environment import BenchmarkEnvironment
from harness.gateway import release_build
from harness.ports import free_ports
from harness.process import two_cores

GOAL = 1.3
WARM_UP = 1
"""Seconds before each sample, which the generator does not count."""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--product", type=pathlib.Path, help="the gateway's binary; default: the release build's")
    parser.add_argument("--rounds", type=int, default=5, help="samples of each; default: %(default)s")
    parser.add_argument("--seconds", type=int, default=4, help="length of a sample; default: %(default)s")
    parser.add_argument("--rate", type=int, default=1_000, help="requests per second; default: %(default)s")
    options = parser.parse_args()
    if not 0 < 2 * options.rounds * (options.seconds + WARM_UP) <= 60:
        parser.error("all samples together, each with a second of warm-up, may take at most 60 s")
    gateway_core, other_core = two_cores()
    with BenchmarkEnvironment(upstream_core=other_core) as environment:
        gateway = environment.product_that_decides(options.product or release_build(), "nginx")
        static, *fronts = free_ports(3)
        ports = {"STATIC_PORT": static, "DECISION_PORT": gateway.decision_port}
        ports |= dict(zip(("GATEWAY_FRONT_PORT", "STATIC_FRONT_PORT"), fronts))
        for name, port, core in (("authorizer", static, gateway_core), ("front", fronts[0], other_core)):
            config = environment.fill(f"forward-auth-{name}.nginx.conf", **ports)
            environment.start(name, ["nginx", "-c", config], port, core=core)
        with gateway.running(core=gateway_core):
            print(f"cloakroom {gateway.version}, {options.rate} requests/s over 64 connections")
            samples = measure(dict(zip(("gateway", "static"), fronts)), gateway.cookie, environment, other_core, options)
    return 0 if report(samples) <= GOAL else 1


def measure(fronts, cookie, environment, core, options):
    """The samples of each front: p50 and p99 in microseconds."""
    generator = OpenLoop(environment.folder)
    samples = {name: [] for name in fronts}
    for _ in range(options.rounds):
        for name, port in fronts.items():
            headers = {"Cookie": cookie}
            sample = generator.run(PROTOCOLS["h1"], port, "/videos/1", headers, options.rate, options.seconds, core)
            if sample["unexpected"] or sample["unfinished"] or not sample["requests"]:
                raise Failure(f"{name}: not all responses are 200: {sample}")
            samples[name].append(sample)
    return samples


def report(samples):
    """Prints the figures. Returns the ratio of p99."""
    for name, each in samples.items():
        print(f"{name}: " + ", ".join(f"{figure} {spread([sample[figure] for sample in each])} µs" for figure in ("p50", "p99")))
    late = [sample["delay_p99"] for each in samples.values() for sample in each]
    print(f"generator's delay: p99 {spread(late)} µs")
    ratios = {}
    for figure in ("p50", "p99"):
        pairs = zip(samples["gateway"], samples["static"])
        ratios[figure] = [ours[figure] / theirs[figure] for ours, theirs in pairs]
        print(f"ratio of {figure}: {spread(ratios[figure], 2)}")
    ratio = statistics.median(ratios["p99"])
    print(f"{'PASS' if ratio <= GOAL else 'FAIL'}  the p99 is {ratio:.2f} times that with a static authorizer, goal {GOAL}")
    return ratio


def spread(figures, digits=0):
    """The median and the range."""
    ordered = sorted(figures)
    return f"{statistics.median(ordered):,.{digits}f} ({ordered[0]:,.{digits}f}–{ordered[-1]:,.{digits}f})"


if __name__ == "__main__":
    run_command(main)
