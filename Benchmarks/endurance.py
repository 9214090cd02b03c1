#!/usr/bin/env python3
"""Endurance tests: large bodies, many connections, faults, restarts. Prints figures, and PASS or FAIL.

  endurance.py bodies        1 GB up, down, both at once, and with one side slow
  endurance.py connections   10,000 connections opened, idle, closed
  endurance.py slowloris     1,000 heads at one byte per second
  endurance.py zerowindow    1,000 HTTP/2 streams whose window stays closed
  endurance.py chaos         a minute of load with faults between gateway and upstream
  endurance.py upgrade       a second process takes over the port under load
  endurance.py drain         SIGTERM under load
  endurance.py refresh       200 clients with one session whose access token expires after 2 s
  endurance.py replicas      two gateways and one Redis: sign-out, kill -9, restarts, an outage
  endurance.py cluster       two gateways and a Valkey cluster: failovers, moved slots, restarts, a partition, a password
  endurance.py expiry        1,000 requests at once with a provider's session whose access token has expired
  endurance.py provider      an OpenID Provider that is frozen, killed, slow, or rotates its keys each second
  endurance.py logout        two gateways and one Redis: a provider's logout closes a WebSocket at the other gateway
  endurance.py durability    kill -9 during 1,000 sign-ins, sessions in SQLite
  endurance.py signins       sign-ins over 32 connections from one address: their cost, and commands at Valkey
  endurance.py telemetry     a stopped collector, a full pipe, a large scrape, start and stop
  endurance.py upstreams     three origins, one of them slow, broken or frozen; Envoy, HAProxy and nginx take part
  endurance.py all           all of them but upstreams in sequence; exits with 1 if a check fails

Everything listens on free ports of loopback and is stopped by process id when the script ends. Standard library only.
"""

import argparse
import pathlib
import sys
import time

from harness.checks import Checks
from harness.command import Failure, run_command
from harness.environment import TestEnvironment
from harness.gateway import release_build
from harness.process import allow_many_files
from scenarios import bodies, chaos, cluster, connections, drain, durability, expiry, logout, provider, refresh
from scenarios import replicas, signins, slowloris, telemetry, upgrade, zerowindow
from trials import run as trials

SCENARIOS = {
    "bodies": bodies.run,
    "connections": connections.run,
    "slowloris": slowloris.run,
    "zerowindow": zerowindow.run,
    "chaos": chaos.run,
    "upgrade": upgrade.run,
    "drain": drain.run,
    "refresh": refresh.run,
    "replicas": replicas.run,
    "cluster": cluster.run,
    "expiry": expiry.run,
    "provider": provider.run,
    "logout": logout.run,
    "durability": durability.run,
    "signins": signins.run,
    "telemetry": telemetry.run,
    "upstreams": trials.run,
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="+", choices=[*SCENARIOS, "all"], metavar="scenario", help="one or more of the above")
    parser.add_argument("--product", type=pathlib.Path, help="the gateway's binary; default: the release build's")
    parser.add_argument("--without-http2", action="store_true", help="skip everything that needs HTTP/2")
    parser.add_argument("--megabytes", type=int, default=1_000, help="size of a large body; default: %(default)s")
    parser.add_argument("--slow-seconds", type=int, default=20, help="duration of slow transfers; default: %(default)s")
    parser.add_argument("--connections", type=int, default=10_000, help="number of connections; default: %(default)s")
    parser.add_argument("--heads", type=int, default=1_000, help="concurrent slow heads; default: %(default)s")
    parser.add_argument("--streams", type=int, default=1_000, help="HTTP/2 streams with a closed window; default: %(default)s")
    parser.add_argument("--chaos-seconds", type=int, default=60, help="duration of chaos; default: %(default)s")
    parser.add_argument("--handovers", type=int, default=3, help="to a second process, for upgrade; default: %(default)s")
    parser.add_argument("--refresh-seconds", type=int, default=60, help="duration of refresh; default: %(default)s")
    parser.add_argument("--provider-seconds", type=int, default=12, help="of each phase of provider; default: %(default)s")
    parser.add_argument("--provider-rounds", type=int, default=3, help="of all phases of provider; default: %(default)s")
    parser.add_argument("--cluster-primaries", type=int, default=3, help="to kill and freeze; default: %(default)s")
    parser.add_argument("--cluster-slots", type=int, default=4_000, help="to move in cluster; default: %(default)s")
    parser.add_argument("--cluster-pause", type=int, default=5, help="seconds of load after a fault; default: %(default)s")
    parser.add_argument("--sign-ins", type=int, default=1_000, help="for durability and signins; default: %(default)s")
    parser.add_argument("--paths", type=int, default=100_000, help="for telemetry; default: %(default)s")
    parser.add_argument("--clients", type=int, default=48, help="clients that send load; default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="seed of the faults; default: %(default)s")
    trials.add_options(parser.add_argument_group("upstreams"))
    options = parser.parse_args()
    trials.complete(options, parser)
    bounds = {
        "trial_seconds": (10, 600),
        "rate": (20, 2_000),
        "slack": (1, 10),
        "h2_requests": (100, 10_000_000),
        "megabytes": (1, 100_000),
        "slow_seconds": (2, 600),
        "connections": (10, 50_000),
        "heads": (1, 10_000),
        "streams": (20, 20_000),
        "chaos_seconds": (5, 3_600),
        "handovers": (1, 100),
        "refresh_seconds": (5, 3_600),
        "provider_seconds": (4, 600),
        "provider_rounds": (1, 100),
        "cluster_primaries": (1, 3),
        "cluster_slots": (10, 5_000),
        "cluster_pause": (1, 600),
        "sign_ins": (100, 100_000),
        "paths": (1_000, 10_000_000),
        "clients": (4, 64),
    }
    for name, (least, most) in bounds.items():
        if not least <= getattr(options, name) <= most:
            parser.error(f"--{name.replace('_', '-')} must be {least} to {most}")
    return options


def main():
    options = arguments()
    allow_many_files()
    checks = Checks()
    # The trials of `upstreams` take 40 minutes and need programs that the others do not.
    names = [name for name in SCENARIOS if name in options.scenarios or "all" in options.scenarios and name != "upstreams"]
    for name in names:
        start = time.monotonic()
        print(f"\n{name}: {sys.modules[SCENARIOS[name].__module__].__doc__}", flush=True)
        try:
            # Each scenario has an environment of its own, so that none affects the next.
            with TestEnvironment(options.product or release_build()) as environment:
                SCENARIOS[name](environment, checks, options)
        except Failure as failure:
            checks.expect(name, False, str(failure))
        print(f"      {time.monotonic() - start:.0f} s", flush=True)
    print(f"\nendurance: {checks.summary()}")
    return checks.exit_status


if __name__ == "__main__":
    run_command(main)
