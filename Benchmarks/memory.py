#!/usr/bin/env python3
"""Measures resident memory: at the start, per idle connection, per session, and after many TLS handshakes. See README.md.

  memory.py                                       idle connections of each kind, ends of connections, handshakes, sessions
  memory.py idle --kinds tls,h2 --counts 10000
  memory.py churn handshakes --handshakes 20000
  memory.py sessions --than OTHER_BINARY          sessions of two builds in turn
  memory.py --check                               exits with 1 if a goal is missed

Each figure is of a gateway of its own with one event loop, after a warm-up. Standard library only; the clients run in a
process of their own and end with the script.
"""

import argparse
import multiprocessing
import pathlib
import resource
import ssl
import sys
import time

from harness.command import Failure, run_command
from harness.environment import TestEnvironment
from harness.http import begin_login, complete_login
from harness.gateway import release_build
from harness.measure import MIB
from harness.process import allow_many_files
from harness.ports import free_port
from scenarios import http1, provider_helpers, session_helpers
from scenarios.idle import ENDINGS, KINDS, USES, VERSIONS, IdleConnections, connect_and_close, connect_and_end

# What is reached, with a margin; swift-nio-ssl holds 18 KiB of a TLS connection.
GOALS_KIB = {"clear": 6, "tls": 25, "h2": 25}
HANDSHAKE_GOAL_MIB = 16
CHURN = 3_000
WARM_UP = 200
# Longer than the interval at which the gateway releases caches and returns memory.
QUIET_SECONDS = 7
# The lengths of the tokens of a session with a password, and the goal for it: its own memory is less than 1 KiB, the rest is
# what sign-ins leave in the heap.
ACCESS_BYTES, REFRESH_BYTES = 400, 43
SESSION_GOAL = 1_400
# Accounts at a provider have at most this many sessions.
MOST_PROVIDER_SESSIONS = 9_000
# The first sign-ins also fill caches and pools.
SESSION_WARM_UP = 1_000
ROUNDS = 2
# Descriptors for everything else.
RESERVE = 500


def gateway_for(environment, connections):
    """A gateway with one event loop whose limits and timeouts keep all connections open."""
    return environment.gateway(
        eventLoops=1,
        timeouts={"keepAlive": "10m", "header": "1m"},
        limits={"connections": connections + RESERVE, "connectionsPerAddress": 0},
    )


def in_child(function, *arguments):
    """Runs a client in a process of its own, so that its memory and its work are separate. Returns a pipe to it."""
    pipe, child_pipe = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=function, args=(child_pipe, *arguments), daemon=True)
    child.start()
    return pipe, child


def receive(pipe, child, seconds):
    if not pipe.poll(seconds):
        child.kill()
        raise Failure(f"the clients did not report within {seconds} s")
    try:
        return pipe.recv()
    except EOFError:
        raise Failure("the process of the clients has ended") from None


def hold_connections(pipe, port, kind, count, use):
    """Opens connections, reports how many are open, and closes them when it receives anything."""
    allow_many_files()
    with IdleConnections(port, kind) as connections:
        connections.open(WARM_UP, USES[use])
        connections.close_all()
        pipe.send(0)
        pipe.recv()
        connections.open(count, USES[use])
        pipe.send(connections.count)
        pipe.recv()
        connections.close_all()
        pipe.send(0)


def measure_idle(environment, kind, count, use):
    """Resident memory before, with and after idle connections, in bytes."""
    gateway = gateway_for(environment, count)
    try:
        port = gateway.port if kind == "clear" else gateway.tls_port
        pipe, child = in_child(hold_connections, port, kind, count, use)
        receive(pipe, child, 60)
        time.sleep(1)
        before = gateway.resident()
        pipe.send(0)
        opened = receive(pipe, child, 60 + count // 100)
        if opened != count:
            raise Failure(f"{opened} of {count} connections were opened ({kind})")
        at_once = gateway.resident()
        time.sleep(QUIET_SECONDS)
        quiet = gateway.resident()
        pipe.send(0)
        receive(pipe, child, 60)
        child.join(20)
        time.sleep(QUIET_SECONDS)
        return before, at_once, quiet, gateway.resident()
    finally:
        gateway.stop()


def report_idle(environment, options):
    """Prints a table of idle connections. Returns the goals that were missed, as sentences."""
    missed = []
    print("\n| kind | connections | used for | RSS before | KiB each, at once | KiB each, quiet | RSS after |")
    print("| --- | ---: | --- | ---: | ---: | ---: | ---: |", flush=True)
    for kind in options.kinds:
        for count in options.counts:
            for use in options.uses:
                before, at_once, quiet, after = measure_idle(environment, kind, count, use)
                each = (quiet - before) / count / 1024
                print(
                    f"| {kind} | {count:,} | {use} | {before / MIB:.1f} MiB "
                    f"| {(at_once - before) / count / 1024:.1f} | {each:.1f} | {after / MIB:.1f} MiB |",
                    flush=True,
                )
                if each > GOALS_KIB.get(kind, each):
                    missed.append(f"{each:.1f} KiB per idle connection ({kind}, {count:,}, {use}), goal {GOALS_KIB[kind]} KiB")
    return missed


def make_handshakes(pipe, port, version, count):
    """Connections with a full handshake and one request each, one after the other."""
    for mark in (WARM_UP, count):
        for _ in range(mark):
            connect_and_close(port, version)
        pipe.send(0)
        pipe.recv()


def measure_handshakes(environment, version, count):
    """Resident memory before and after full handshakes, and after the gateway was idle, in bytes."""
    gateway = gateway_for(environment, 1_000)
    try:
        pipe, child = in_child(make_handshakes, gateway.tls_port, version, count)
        receive(pipe, child, 60)
        before = gateway.resident()
        pipe.send(0)
        receive(pipe, child, 60 + count // 100)
        after = gateway.resident()
        pipe.send(0)
        child.join(20)
        time.sleep(QUIET_SECONDS)
        return before, after, gateway.resident()
    finally:
        gateway.stop()


def report_handshakes(environment, options):
    """Prints a table of handshakes. Returns the goals that were missed, as sentences."""
    missed = []
    print("\n| TLS | full handshakes | RSS before | RSS after | RSS quiet |\n| --- | ---: | ---: | ---: | ---: |", flush=True)
    for version in VERSIONS:
        before, after, quiet = measure_handshakes(environment, version, options.handshakes)
        print(
            f"| {version} | {options.handshakes:,} | {before / MIB:.1f} MiB | {after / MIB:.1f} MiB | {quiet / MIB:.1f} MiB |",
            flush=True,
        )
        if quiet - before > HANDSHAKE_GOAL_MIB * MIB:
            missed.append(
                f"{(quiet - before) / MIB:.1f} MiB more after {options.handshakes:,} handshakes ({version}), "
                f"goal {HANDSHAKE_GOAL_MIB} MiB"
            )
    return missed


def make_churn(pipe, port, ending, count):
    """Connections with one request each that end in one way, one after the other."""
    for _ in range(WARM_UP):
        connect_and_close(port, "1.3")
    pipe.send(0)
    pipe.recv()
    for _ in range(count):
        connect_and_end(port, ending)
    pipe.send(0)
    pipe.recv()


def report_churn(environment):
    """Prints a table of sequential connections by the way they end. Returns the goals that were missed."""
    missed = []
    print("\n| end of a TLS connection | connections | RSS before | RSS after | RSS quiet |")
    print("| --- | ---: | ---: | ---: | ---: |", flush=True)
    for ending in ENDINGS:
        gateway = gateway_for(environment, 1_000)
        try:
            pipe, child = in_child(make_churn, gateway.tls_port, ending, CHURN)
            receive(pipe, child, 60)
            before = gateway.resident()
            pipe.send(0)
            receive(pipe, child, 120)
            after = gateway.resident()
            pipe.send(0)
            child.join(20)
            time.sleep(QUIET_SECONDS)
            quiet = gateway.resident()
        finally:
            gateway.stop()
        print(f"| {ending} | {CHURN:,} | {before / MIB:.1f} MiB | {after / MIB:.1f} MiB | {quiet / MIB:.1f} MiB |", flush=True)
        if after - before > HANDSHAKE_GOAL_MIB * MIB:
            missed.append(f"{(after - before) / MIB:.1f} MiB more after {CHURN:,} connections that end by {ending}")
    return missed


def password_gateway(environment):
    port = free_port()
    environment.start_module("scenarios.sign_in_origin", str(port), str(ACCESS_BYTES), str(REFRESH_BYTES), port=port)
    session = {"store": "memory", "maxSessions": 10_000_000}
    return session_helpers.gateway(environment, port, session, eventLoops=1)


def provider_gateway(environment):
    provider = provider_helpers.Provider(environment, 3_600)
    routes = [provider_helpers.route("api", "/api/{number}", "api", "bearer")]
    session = {"store": "memory", "maxSessionsPerAccount": 10_000}
    identity = {"pushed": "never"}
    return provider_helpers.gateway(environment, provider, free_port(), routes, identity, session=session, eventLoops=1)


def sign_in(pipe, port, count):
    """Sign-ins with a password, one after the other on one connection, each of another account."""
    number = 0
    with http1.Client(port) as client:
        for mark in (SESSION_WARM_UP, count):
            for _ in range(mark):
                number += 1
                status, _ = session_helpers.send_sign_in(client, f"user-{number}@example.com")
                if status != 200:
                    raise Failure(f"sign-in failed with status {status}")
            pipe.send(0)
            pipe.recv()


def log_in(pipe, port, count):
    """Logins at the provider, one after the other."""
    for mark in (SESSION_WARM_UP, count):
        for _ in range(mark):
            complete_login(begin_login(f"http://127.0.0.1:{port}"))
        pipe.send(0)
        pipe.recv()


def measure_sessions(environment, kind, count):
    """Bytes of resident memory per session."""
    start, function = {"password": (password_gateway, sign_in), "provider": (provider_gateway, log_in)}[kind]
    gateway = start(environment)
    try:
        pipe, child = in_child(function, gateway.port, count)
        receive(pipe, child, 120)
        time.sleep(QUIET_SECONDS)
        before = gateway.resident()
        pipe.send(0)
        receive(pipe, child, 60 + count // 20)
        pipe.send(0)
        child.join(20)
        time.sleep(QUIET_SECONDS)
        return (gateway.resident() - before) / count
    finally:
        gateway.stop()


def report_sessions(binary, options):
    """Prints a table of bytes per session, of two builds in turn if there is another one. Returns the goals that were
    missed."""
    missed = []
    print("\n| build | session | sessions | bytes each |\n| --- | --- | ---: | ---: |", flush=True)
    for kind, count in (("password", options.sessions), ("provider", min(MOST_PROVIDER_SESSIONS, options.sessions))):
        for _ in range(ROUNDS if options.than else 1):
            # A build from before providers has no such sessions.
            for build in [binary, options.than] if options.than and kind == "password" else [binary]:
                with TestEnvironment(build) as environment:
                    each = measure_sessions(environment, kind, count)
                print(f"| {build.name} | {kind} | {count:,} | {each:.0f} |", flush=True)
                if kind == "password" and build == binary and each > SESSION_GOAL:
                    missed.append(f"{each:.0f} bytes per session with a password, goal {SESSION_GOAL}")
    return missed


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="idle, churn, handshakes, sessions; default: all")
    parser.add_argument("--product", type=pathlib.Path, help="the gateway's binary; default: the release build's")
    parser.add_argument("--kinds", default=",".join(KINDS), help="default: %(default)s")
    parser.add_argument("--counts", default="1000,10000", help="numbers of idle connections; default: %(default)s")
    parser.add_argument("--uses", default=";".join(USES), help="what they were used for; default: %(default)s")
    parser.add_argument("--handshakes", type=int, default=20_000, help="1,000 to 1,000,000; default: %(default)s")
    parser.add_argument("--sessions", type=int, default=50_000, help="1,000 to 1,000,000; default: %(default)s")
    parser.add_argument("--than", type=pathlib.Path, help="another binary, whose sessions are measured too")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a goal is missed")
    options = parser.parse_args()
    parts = ["idle", "churn", "handshakes", "sessions"]
    options.parts = options.parts or parts
    options.kinds = options.kinds.split(",")
    options.uses = options.uses.split(";")
    if set(options.parts) - set(parts) or set(options.kinds) - set(KINDS) or set(options.uses) - set(USES):
        parser.error(f"parts are {', '.join(parts)}, kinds are {', '.join(KINDS)}, uses are {'; '.join(USES)}")
    try:
        options.counts = [int(count) for count in options.counts.split(",")]
    except ValueError:
        parser.error("--counts must be numbers")
    if not all(10 <= count <= 50_000 for count in options.counts) or not 1_000 <= options.handshakes <= 1_000_000:
        parser.error("10 to 50,000 connections, 1,000 to 1,000,000 handshakes")
    if not 1_000 <= options.sessions <= 1_000_000:
        parser.error("1,000 to 1,000,000 sessions")
    return options


def main():
    options = arguments()
    allow_many_files()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    most = max(options.counts, default=0)
    if "idle" in options.parts and limit < most + 2 * RESERVE:
        raise Failure(f"{most} connections need {most + 2 * RESERVE} descriptors, and the limit is {limit}: ulimit -n")
    missed = []
    binary = options.product or release_build()
    with TestEnvironment(binary) as environment:
        gateway = gateway_for(environment, 1_000)
        print(f"{gateway.resident() / MIB:.1f} MiB resident after the start and one request; {ssl.OPENSSL_VERSION}")
        gateway.stop()
        if "idle" in options.parts:
            missed += report_idle(environment, options)
        if "churn" in options.parts:
            missed += report_churn(environment)
        if "handshakes" in options.parts:
            missed += report_handshakes(environment, options)
    if "sessions" in options.parts:
        missed += report_sessions(binary, options)
    for sentence in missed:
        print(f"memory: {sentence}", file=sys.stderr)
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    run_command(main)
