"""HTTP/2 streams that request 1 MB each with a window of 0 or 1 byte: bounded memory, other clients are served."""

import collections
import time

from harness.measure import MIB, MemorySamples
from scenarios import http2
from scenarios.bystander import BystanderClient

GROWTH_LIMIT = 64 * MIB
BODY = 1_000_000
STREAMS_EACH = 50
HELD_SECONDS = 8
WINDOWS = (0, 1)


def run(environment, checks, options):
    if options.without_http2:
        print("      skipped: it needs HTTP/2")
        return
    # Each stream uses an upstream connection, and the bystander client needs some too.
    pool = {"maxConnections": options.streams + 200, "idleTimeout": "1s"}
    gateway = environment.gateway(upstream={"pool": pool})
    gateway.settle(gateway.descriptors, 0, 1.5)
    descriptors = gateway.descriptors()
    connections = []
    with MemorySamples(gateway) as samples, BystanderClient(gateway) as bystander:
        try:
            for number in range(max(10, options.streams // STREAMS_EACH)):
                source = (f"127.0.3.{1 + number % 50}", 0)
                window = WINDOWS[number % len(WINDOWS)]
                connections.append(http2.Connection(gateway.tls_port, window=window, source=source))
        except http2.NotSupported as error:
            checks.expect("streams whose window stays closed", False, str(error))
            return
        each = options.streams // len(connections)
        streams = [
            connection.request("GET", f"/bytes/{BODY}?seed={number}")
            for connection in connections
            for number in range(each)
        ]
        hold(connections, HELD_SECONDS)
        ends = collections.Counter(
            end_of(connection, stream) for connection in connections for stream in connection.streams.values()
        )
        received = sum(stream.received for stream in streams)
        for connection in connections:
            connection.close()
        gateway.settle(gateway.descriptors, descriptors + 20, 10)
    figures = ", ".join(f"{count} × {end}" for end, count in ends.most_common())
    checks.expect(
        f"{len(streams)} streams of {len(connections)} connections are open with their window closed",
        received <= len(streams) and ends["no response"] < len(streams),
        f"{figures}; {received} bytes received",
    )
    statement = f"memory grows by less than 64 MiB for {len(streams) * BODY / 1e6:.0f} MB that are not read"
    checks.expect(statement, samples.growth < GROWTH_LIMIT, str(samples))
    bystander.check(checks, "other clients are served meanwhile")
    left = gateway.settle(gateway.descriptors, descriptors, 10)
    checks.expect("descriptors are released", left <= descriptors, f"{descriptors} before, {left} after")
    active = gateway.settle(lambda: gateway.metric("cloakroom_upstream_connections", state="active"), 0, 10)
    checks.expect("no upstream connection stays active", active == 0, f"{active:.0f} active")
    after = gateway.settle(gateway.resident, samples.before + 16 * MIB, 15)
    figures = f"{samples.before / MIB:.1f} MiB before, {after / MIB:.1f} MiB after"
    checks.expect("memory is released within 16 MiB", after <= samples.before + 16 * MIB, figures)
    gateway.stop()


def hold(connections, seconds):
    """Serves the connections in turn, which is sufficient for peers that send little."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for connection in connections:
            connection.run(lambda: False, 0.01)


def end_of(connection, stream):
    if stream.reset is not None:
        return f"reset ({stream.reset})"
    if connection.goaway:
        return f"GOAWAY ({connection.goaway[1]})"
    if connection.is_ended:
        return "connection closed"
    return f"response {stream.status}, held" if stream.status else "no response"
