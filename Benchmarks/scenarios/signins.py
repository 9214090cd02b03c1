"""Sign-ins over 32 connections from one address, with the throttle: all succeed; rate, CPU time, and commands at Valkey."""

import collections
import itertools
import threading
import time

from harness.measure import precise_cpu_seconds
from harness.ports import free_port
from harness.valkey import Connection
from scenarios import http1, session_helpers

CONNECTIONS = 32
# Sign-ins before the measurement, and those that are measured one after the other.
WARM_UP, SEQUENTIAL = 500, 200
# Bounds: reads of the server for one sign-in, and for release builds microseconds of CPU time of the gateway. A sign-in takes
# four round trips; in two of them the gateway sends two pipelines at the same time, which the server may read separately.
READS = 6
MICROSECONDS = {"memory": 250, "valkey": 500}
# The lengths of the tokens of a session, as in memory.py.
ACCESS_BYTES, REFRESH_BYTES = 400, 43


def run(environment, checks, options):
    origin = free_port()
    sizes = str(ACCESS_BYTES), str(REFRESH_BYTES)
    environment.start_module("scenarios.sign_in_origin", str(origin), *sizes, port=origin)
    server = free_port()
    command = ["valkey-server", "--port", str(server), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    environment.start("valkey", command, server)
    numbers = itertools.count(1)
    for store in MICROSECONDS:
        session = {"store": store, **({"valkey": {"addresses": [f"127.0.0.1:{server}"]}} if store == "valkey" else {})}
        accounts = {"throttle": True, "signInsPerAddress": 0}
        names = {"expiresIn": "expiresIn"}
        gateway = session_helpers.gateway(environment, origin, session, names, None, accounts, eventLoops=1)
        sign_in_all(gateway, numbers, WARM_UP, CONNECTIONS)
        if store == "valkey":
            measure_commands(checks, gateway, server, numbers)
        cpu, start = precise_cpu_seconds(gateway.pid), time.monotonic()
        statuses = sign_in_all(gateway, numbers, options.sign_ins, CONNECTIONS)
        seconds, cpu = time.monotonic() - start, precise_cpu_seconds(gateway.pid) - cpu
        is_right = statuses == {200: options.sign_ins}
        checks.expect(f"{store}: each sign-in with a right password succeeds", is_right, f"{dict(statuses)}")
        cost = cpu / options.sign_ins * 1e6
        figures = f"{options.sign_ins / seconds:,.0f} sign-ins/s, {cost:,.0f} µs"
        checks.expect(f"{store}: a sign-in costs at most {MICROSECONDS[store]} µs", cost <= MICROSECONDS[store], figures)
        gateway.stop()


def sign_in_all(gateway, numbers, count, connections):
    """Signs in as fast as the clients can, each time with another account. Returns the number of responses by status."""
    statuses, jobs = collections.Counter(), iter(list(itertools.islice(numbers, count)))

    def sign_in():
        with http1.Client(gateway.port) as client:
            for number in jobs:
                status, _ = session_helpers.send_sign_in(client, f"user-{number}@example.com")
                statuses[status] += 1

    threads = [threading.Thread(target=sign_in, daemon=True) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return statuses


def measure_commands(checks, gateway, server, numbers):
    """Without concurrency, so that no read of the server is for several sign-ins."""
    before, reads = figures(server)
    sign_in_all(gateway, numbers, SEQUENTIAL, 1)
    after, last = figures(server)
    names = ", ".join(f"{(after[name] - before[name]) / SEQUENTIAL:.1f} {name}" for name in after if after[name] > before[name])
    reads = (last - reads) / SEQUENTIAL
    statement = f"valkey: the server reads at most {READS} times for a sign-in"
    # The gateway and this client send a few other commands meanwhile.
    checks.expect(statement, reads <= READS + 0.2, f"{reads:.1f}; {names}")


def figures(server):
    """The calls of each command so far, and the reads of connections."""
    with Connection("127.0.0.1", server) as client:
        lines = client.send("INFO", "commandstats").splitlines()
        stats = dict(line.split(":", 1) for line in client.send("INFO", "stats").splitlines() if ":" in line)
    calls = collections.Counter()
    for line in lines:
        if line.startswith("cmdstat_"):
            name, _, values = line.partition(":")
            calls[name.removeprefix("cmdstat_")] = int(values.partition("calls=")[2].partition(",")[0])
    return calls, int(stats["total_reads_processed"])
