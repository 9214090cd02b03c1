#!/usr/bin/env python3
"""Compares gateways that do the same work, side by side in one run: CPU time per request or per GB, latencies, memory.

See README.md.
"""

import argparse
import datetime
import pathlib
import platform
import sys

from comparison.gateways import BASELINES, baseline
from comparison.report import Report
from comparison.scenarios import GROUPS, SCENARIOS, Setting, selected
from harness.command import Failure, run_command
from harness.environment import BenchmarkEnvironment
from harness.gateway import release_build, version_of
from harness.process import two_cores

DEFAULT_SCENARIOS = "main,browser,unauthorized-h1"


def arguments():
    listed = "\n".join(f"  {name}: {', '.join(names)}" for name, names in GROUPS.items() if name != "all")
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=f"scenarios, by groups:\n{listed}\n  all: all of them",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--product", type=pathlib.Path, help="the gateway's binary; default: the release build's")
    parser.add_argument("--no-product", action="store_true", help="measure only the baselines")
    parser.add_argument("--only-product", action="store_true", help="measure only the product, to profile it")
    parser.add_argument(
        "--baselines", default="nginx,haproxy", help=f"of {', '.join(BASELINES)}, or all; default: %(default)s"
    )
    parser.add_argument("--envoy", default="envoy", help="Envoy's binary")
    parser.add_argument(
        "--scenarios", default=DEFAULT_SCENARIOS, help="names and groups, see below; default: %(default)s"
    )
    parser.add_argument("--rounds", type=int, default=5, help="samples of each; default: %(default)s")
    parser.add_argument("--seconds", type=int, default=3, help="length of a sample, 1 to 60; default: %(default)s")
    parser.add_argument(
        "--bulk-megabytes", type=int, default=256,
        help="bytes of a sample of bulk, in 10⁶ and in four bodies; default: %(default)s; 4000 makes bodies of 1 GB",
    )  # fmt: skip
    parser.add_argument("--json", type=pathlib.Path, help="file for all samples, for plot.py")
    options = parser.parse_args()
    if options.rounds < 1 or not 1 <= options.seconds <= 60:
        parser.error("at least one round, of 1 to 60 seconds")
    if not 4 <= options.bulk_megabytes <= 40_000:
        parser.error("--bulk-megabytes must be 4 to 40000")
    options.scenarios = selected(options.scenarios)
    names = options.baselines.replace("all", ",".join(BASELINES)).split(",")
    options.baselines = [] if options.only_product else list(filter(None, names))
    if options.only_product and options.no_product:
        parser.error("--only-product and --no-product leave nothing to measure")
    return options


def about(gateways, options, cores):
    """The conditions of the run."""
    processor = next(
        (line.partition(":")[2].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
         if line.startswith("model name")), platform.machine())  # fmt: skip
    return {
        "date": datetime.date.today().isoformat(),
        "processor": processor,
        "versions": {gateway.name: gateway.version for gateway in gateways}
        | {"wrk": version_of(["wrk", "--version"]), "h2load": version_of(["h2load", "--version"])}
        | {"upstream": version_of(["nginx", "-v"])},
        "settings": {
            "rounds": options.rounds,
            "seconds": options.seconds,
            "bulk_megabytes": options.bulk_megabytes,
            "gateway_core": cores[0],
            "load_core": cores[1],
        },
    }


def run_scenario(scenario, gateways, setting, rounds, report):
    """Takes all samples of a scenario."""
    gateways = [each for each in gateways if each.name == "cloakroom" or not scenario.only_product]
    gateways = [each for each in gateways if each.name not in scenario.excluded]
    try:
        scenario.prepare(gateways, setting)
    except Failure as failure:
        for gateway in gateways:
            report.fail(scenario.name, gateway.name, failure)
        print(f"{scenario.name}: {failure}", file=sys.stderr)
        return
    # In turn, so that other load on the machine affects all gateways equally.
    for _ in range(rounds):
        for gateway in gateways:
            try:
                report.add(scenario.name, gateway.name, scenario.measure(gateway, setting))
            except Failure as failure:
                report.fail(scenario.name, gateway.name, failure)
                print(f"{scenario.name}, {gateway.name}: {failure}", file=sys.stderr)


def main():
    options = arguments()
    cores = two_cores()
    with BenchmarkEnvironment(upstream_core=cores[1]) as environment:
        gateways = [] if options.no_product else [environment.product(options.product or release_build())]
        gateways += [baseline(environment, name, options.envoy) for name in options.baselines]
        conditions = about(gateways, options, cores)
        report = Report(options.scenarios, [gateway.name for gateway in gateways], conditions)
        for name, version in conditions["versions"].items():
            print(f"- {name}: {version}")
        print(f"- gateway on core {cores[0]}, load and upstream on core {cores[1]} of {conditions['processor']};")
        print(f"  {options.rounds} samples of {options.seconds} s each, in turn; medians\n", flush=True)
        setting = Setting(environment, *cores, options.seconds, options.bulk_megabytes)
        for scenario in options.scenarios:
            run_scenario(scenario, gateways, setting, options.rounds, report)
            print("\n".join(report.table(scenario.name)), flush=True)
            if options.json:
                report.write(options.json)
    return 0 if report.is_complete else 1


if __name__ == "__main__":
    run_command(main)
