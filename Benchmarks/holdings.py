#!/usr/bin/env python3
"""What a gateway holds and computes for hostile peers: bytes of memory and CPU time per byte that they send.

  holdings.py                                  all strategies, a second each
  holdings.py --long                           10 s each, and ten times the bytes
  holdings.py --critical                       the strategies that CI carries out for each change
  holdings.py --only PING --only 'rapid'       strategies by the beginnings of their names
  holdings.py --set limits.head=65535          with another setting of the gateway

Each strategy has a gateway of its own with its default limits, and HAProxy with the same limits and upstream. A strategy
passes if the gateway holds at most twice as much per byte as HAProxy, needs at most twice as much CPU time per byte, and
serves a client that behaves well. Where HAProxy has no such function, the bounds are fixed; they are in
strategies/identity.py. A strategy that misses a bound is carried out three times more, without others. The means of these
runs decide, because one run of a second differs from the next by a third.
Exits with 1 if a strategy fails. Standard library only.
"""

import argparse
import concurrent.futures
import dataclasses
import multiprocessing
import pathlib
import statistics
import sys

from harness.command import Failure, exit_on_signals, run_command
from harness.gateway import release_build, version_of
from harness.ports import free_ports
from harness.process import allow_many_files
from strategies import clear, http2, identity, responses, tls
from strategies.servers import StrategyEnvironment, measure
from strategies.strategy import Strategy

ALL = [*clear.STRATEGIES, *tls.STRATEGIES, *http2.STRATEGIES, *responses.STRATEGIES, *identity.STRATEGIES]
CONTROL = Strategy("none", clear.once(), connections=0)
"""Only the client that behaves well. The CPU time of its requests is subtracted."""
CONTROLS = 3
"""The one that is cheapest per request counts: with other load on the machine, few requests share the time of timers."""
MOST = 2, 2
"""How many times the memory and the CPU time of HAProxy the gateway's may be."""
FLOOR = 256 * 1_024, 0.015
"""Bytes and seconds. HAProxy's count as at least this: runs of one process differ by as much."""
P99 = 0.5
"""Seconds; of the client that behaves well."""
SHORT, LONG = (1.0, 1), (10.0, 10)
"""Seconds of a strategy, and the factor of its bytes."""
REPEATS = 3
"""Further measurements of a strategy that misses a bound. Their means decide."""
MEASURED = "sent", "anonymous", "resident", "kept", "cpu", "p99", "requests"

PIPELINED = "HTTP/1.1: input waits in the storage of its reads, each up to 64 KiB; HAProxy has 16 KiB"
READS = "a read is up to 64 KiB, and a connection keeps its buffer for the next one; HAProxy has buffers of 16 KiB"
HEADS = "each request in flight has a head of its own, and 32 streams of a connection keep theirs for the next requests"
BLOCK = "a field block of 128 KiB is received before its list is rejected; HAProxy rejects it after 16 KiB"
EXCEPTIONS = {
    "heads with 90 fields": (7, 2, PIPELINED),
    "heads with a field of 14 KB": (13, 2, PIPELINED),
    "heads with 1,200 cookies": (14, 2, PIPELINED),
    "paths of 7 KB": (8, 2, PIPELINED),
    "pipelined, responses not read": (4, 2, PIPELINED),
    "bodies that the upstream does not read": (18, 2, PIPELINED),
    "chunks of one byte": (4, 2, READS),
    "404 with heads of 14 KB": (6, 2, READS),
    "401 with heads of 14 KB": (5, 2, READS),
    # Runs have two levels: 10 MB here and 2.1 MB in HAProxy, or 17 and 5.3 MB.
    "large responses not read": (5.5, 2, READS),
    "large responses read slowly": (5, 2, READS),
    "large responses not read, TLS": (6, 2, READS),
    "WebSocket frames of one byte": (3, 2, READS),
    "WebSockets with a slow reader": (4, 2, READS),
    "windows of one byte": (4, 2, READS),
    "response heads of 15 KB": (5, 2, READS),
    "response chunks of one byte": (4, 2, READS),
    "response chunks of one byte, not read": (4, 2, READS),
    "PING, replies not read": (3, 2, READS),
    "HPACK references to a large field": (4, 2, READS),
    "HPACK insertions": (5, 2, HEADS),
    "HPACK insertions of a large field": (4, 2, HEADS),
    "field lists at the limit": (3.5, 2, HEADS),
    "CONTINUATION without end": (14, 2, BLOCK),
    "bodies of HTTP/2 that the upstream does not read": (
        5.5, 3, "6.8 to 10.3 MB and 30 to 40 ms here; HAProxy differs from 1.6 to 5.7 MB and 15 to 24 ms between runs"),
    "resets of responses": (2, 4, "timing decides how much of a response precedes its reset: HAProxy differs from itself by 3"),
    "idle connections after a request": (
        3, 3, "4.4 to 5.4 KB and 100 to 144 us a connection; HAProxy differs from 2.5 to 3.5 KB, and has 65 us"),
    "idle connections": (4, 2, "2.8 KB of channel and handlers; HAProxy has 0.9 KB until the first byte arrives"),
}
"""Strategies that exceed a bound, with other values of MOST, and why. Each is what a release build needs, and a third more."""
CRITICAL = {
    # Heads in pieces, requests and responses that wait.
    "head split at every offset", "head of one byte per write", "head at the limit, unfinished", "heads with 90 fields",
    "heads with a field of 14 KB", "pipelined, responses not read", "large responses not read",
    "large responses read slowly", "bodies that the upstream does not read", "idle connections after a request",
    "WebSockets with a slow reader", "handshakes after ClientHello", "large responses not read, TLS",
    # Windows, frames and header blocks of HTTP/2.
    "stream windows closed", "stream windows closed, TLS", "connection window closed", "responses of HTTP/2 not read",
    "bodies of HTTP/2 that the upstream does not read", "unknown frames", "PING, replies not read",
    "SETTINGS, replies not read", "empty CONTINUATION", "CONTINUATION without end", "HPACK references to a large field",
    "HPACK insertions", "HPACK insertions of a large field", "cookie fields", "rapid reset", "resets by an invalid window",
    "resets of responses", "streams beyond the limit",
    # Sign-ins.
    "half of the body of a sign-in", "sign-ins without a response", "invented accounts", "accounts and addresses",
}  # fmt: skip
"""The strategies of --critical, one or more for each limit of what a peer can make the gateway hold or compute."""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--product", type=pathlib.Path, help="the gateway's binary; default: the release build's")
    parser.add_argument("--long", action="store_true", help="10 s and ten times the bytes")
    parser.add_argument("--critical", action="store_true", help="only the strategies that CI carries out for each change")
    parser.add_argument("--only", action="append", metavar="NAME", help="the beginning of a strategy's name; repeatable")
    parser.add_argument("--lanes", type=int, help="processes that measure at the same time, 1 to 16; default: 9, with --long 4")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the gateway")
    parser.add_argument("--slack", type=float, default=1, help="multiplies the limits of time, 1 to 10; default: 1")
    parser.add_argument("--verbose", action="store_true", help="also print what the peers received")
    options = parser.parse_args()
    options.lanes = options.lanes or (4 if options.long else 9)
    if not 1 <= options.lanes <= 16 or not 1 <= options.slack <= 10:
        parser.error("1 to 16 lanes, and a slack from 1 to 10")
    named = [strategy for strategy in ALL if strategy.name.startswith(tuple(options.only or [""]))]
    options.strategies = [strategy for strategy in named if strategy.name in CRITICAL or not options.critical]
    if not options.strategies:
        parser.error("no strategy has such a name")
    return options


def bounds(strategy, ours, theirs, slack):
    """The most bytes and seconds of CPU that the gateway may need."""
    if strategy.fixed:
        return max(2 * FLOOR[0], strategy.fixed[0] * ours.sent), max(2 * FLOOR[1], strategy.fixed[1] * ours.sent / 1e9 * slack)
    memory, cpu = EXCEPTIONS.get(strategy.name, MOST)[:2]
    share = ours.sent / theirs.sent
    return memory * max(FLOOR[0], theirs.anonymous * share), cpu * max(FLOOR[1], theirs.cpu * share)


def misses(strategy, ours, theirs, slack):
    """What exceeds its bound, as sentences."""
    memory, cpu = bounds(strategy, ours, theirs, slack)
    found = []
    if ours.opened < strategy.connections or not ours.sent:
        found.append(f"was not carried out: {ours.opened} connections, {ours.sent:.0f} bytes")
    if ours.anonymous > memory:
        found.append(f"holds {ours.anonymous:,.0f} bytes for {ours.sent:,.0f}, at most {memory:,.0f}")
    if ours.cpu > cpu:
        found.append(f"needs {ours.cpu * 1e3:.0f} ms of CPU for {ours.sent:,.0f} bytes, at most {cpu * 1e3:.0f} ms")
    if ours.failures:
        found.append(f"{len(ours.failures)} of {ours.requests:.0f} requests of another client failed: {ours.failures[0]}")
    if ours.p99 > P99 * slack:
        found.append(f"p99 of another client is {ours.p99 * 1e3:.0f} ms, at most {P99 * slack * 1e3:.0f} ms")
    return found


def columns(cost):
    """Four columns of one process."""
    if cost is None:
        return "– | – | – | – |"
    memory = f"{cost.anonymous / 1_024:,.0f} | {cost.anonymous / cost.sent:.2f}"
    return f"{memory} | {cost.kept / 1_024:,.0f} | {cost.cpu * 1e9 / cost.sent:,.0f} |"


def mean(costs):
    """One cost for several runs: means, but each failure and the fewest connections count."""
    means = {name: statistics.fmean(getattr(cost, name) for cost in costs) for name in MEASURED}
    means["opened"] = min(cost.opened for cost in costs)
    return dataclasses.replace(costs[0], **means, failures=[failure for cost in costs for failure in cost.failures])


def report(strategy, runs, controls, options, is_last):
    """Prints the line of a strategy. Returns whether it passed."""
    missed = "FAIL" if is_last else "again"
    try:
        ours, theirs = (
            mean([net(tasks[name], controls[name]) for tasks in runs]) if name in runs[0] else None for name in controls)
    except Failure as failure:
        # The gateway has ended, or does not start.
        print(f"| {strategy.name} |" + " – |" * 10 + f" {missed} |")
        print(f"holdings: {strategy.name}: {failure}", file=sys.stderr, flush=True)
        return False
    found = misses(strategy, ours, theirs, options.slack)
    result = missed if found else "exception" if strategy.name in EXCEPTIONS else "pass"
    figures = f"{ours.sent / 1e3:,.0f} | {columns(ours)} {columns(theirs)} {ours.p99 * 1e3:.0f}"
    print(f"| {strategy.name} | {figures} | {result} |", flush=True)
    for sentence in found:
        print(f"holdings: {strategy.name}: {sentence}", file=sys.stderr, flush=True)
    for cost in (ours, theirs) if options.verbose else ():
        print("    ", dataclasses.asdict(cost) if cost else "", flush=True)
    return not found


# The executor starts its processes by fork: neither an environment nor a strategy can be sent to one.
_environment = _options = None


def carry_out(index, name, ports):
    strategy = CONTROL if index is None else ALL[index]
    settings = [part for value in _options.set for part in ("--set", value)] if name == "cloakroom" else []
    seconds, factor = LONG if _options.long else SHORT
    return measure(_environment, strategy, name, ports, seconds, seconds * _options.slack, factor, settings)


def cpu_per_request(control):
    return control.cpu / max(1, control.requests)


def net(task, control):
    """The cost of a strategy without that of the client that behaves well."""
    cost = task.result()
    return dataclasses.replace(cost, cpu=max(0, cost.cpu - cpu_per_request(control) * cost.requests))


def repeat(start_pair, strategy):
    """Further runs, of which each begins when the one before has ended."""
    runs = [start_pair(strategy)]
    while len(runs) < REPEATS:
        concurrent.futures.wait(runs[-1].values())
        runs.append(start_pair(strategy))
    return runs


def run(options):
    """Carries out all strategies, several at the same time, and prints their lines in order."""
    context = multiprocessing.get_context("fork")
    executor = concurrent.futures.ProcessPoolExecutor(options.lanes, context, initializer=exit_on_signals)
    print("| strategy | KB sent | Cloakroom: KiB held | per byte | KiB kept | CPU ms/MB "
          "| HAProxy: KiB held | per byte | KiB kept | CPU ms/MB | p99 ms | result |")
    print("| --- |" + " ---: |" * 10 + " --- |", flush=True)

    def start(strategy, name):
        index = None if strategy is CONTROL else ALL.index(strategy)
        return executor.submit(carry_out, index, name, free_ports(3))

    def start_pair(strategy):
        return {name: start(strategy, name) for name in (["cloakroom"] if strategy.fixed else controls)}

    try:
        controls = {name: [start(CONTROL, name) for _ in range(CONTROLS)] for name in ("cloakroom", "haproxy")}
        tasks = [(strategy, start_pair(strategy)) for strategy in options.strategies]
        controls = {name: min((each.result() for each in runs), key=cpu_per_request) for name, runs in controls.items()}
        missed = [strategy for strategy, pair in tasks if not report(strategy, [pair], controls, options, False)]
        # These one after the other, each with only HAProxy running.
        failed = sum(not report(strategy, repeat(start_pair, strategy), controls, options, True) for strategy in missed)
    finally:
        executor.shutdown(cancel_futures=True)
    print(f"{len(tasks) - failed} passed, {failed} failed")
    return 1 if failed else 0


def main():
    global _environment, _options
    _options = options = arguments()
    allow_many_files()
    with StrategyEnvironment(options.product or release_build()) as _environment:
        print(f"Cloakroom {version_of([_environment.binary, '--version'])}; {version_of(['haproxy', '-v'])}\n", flush=True)
        return run(options)


if __name__ == "__main__":
    run_command(main)
