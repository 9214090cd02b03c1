"""Large bodies up, down and both at once, compared by hash; then with one side slow. Memory must stay bounded."""

import hashlib
import json
import threading
import time

from harness.http import request
from harness.measure import MIB, MemorySamples
from scenarios import content, http1, http2

GROWTH_LIMIT = 16 * MIB
RATE = 1_000_000
# Larger than all buffers, for the side that is not slow.
ENDLESS = 1_000 * 1_000_000
SEED_UP, SEED_DOWN = 1, 2


class Download:
    """The received part of a body, and its hash."""

    def __init__(self):
        self.sha, self.count = hashlib.sha256(), 0

    def take(self, piece):
        self.sha.update(piece)
        self.count += len(piece)

    def is_start_of(self, seed):
        return self.sha.hexdigest() == content.digest(seed, self.count)


class Task(threading.Thread):
    """A function in a thread of its own. Keeps its result or its exception."""

    def __init__(self, function, *arguments):
        super().__init__(daemon=True)
        self.function, self.arguments = function, arguments
        self.result, self.error = None, None
        self.start()

    def run(self):
        try:
            self.result = self.function(*self.arguments)
        except Exception as error:
            self.error = error

    def outcome(self, seconds):
        self.join(seconds)
        if self.is_alive():
            return None, f"not finished after {seconds} s"
        return self.result, repr(self.error) if self.error else None


def run(environment, checks, options):
    count = options.megabytes * 1_000_000
    changes = {"limits": {"body": "64GiB"}}
    gateway = environment.gateway(**changes)
    check_directions(environment, checks, "HTTP/1.1", gateway, options, up_h1, down_h1, both_h1, count)
    check_slow_sides(environment, checks, "HTTP/1.1", gateway, options, SLOW_H1)
    gateway.stop()
    if options.without_http2:
        return
    gateway = environment.gateway(**changes)
    try:
        http2.Connection(gateway.tls_port).close()
    except http2.NotSupported as error:
        checks.expect("bodies over HTTP/2", False, str(error))
        return
    check_directions(environment, checks, "HTTP/2", gateway, options, up_h2, down_h2, both_h2, count)
    check_slow_sides(environment, checks, "HTTP/2", gateway, options, SLOW_H2)
    check_fairness(checks, gateway)
    gateway.stop()


def check_directions(environment, checks, protocol, gateway, options, up, down, both, count):
    """Each direction, then both together, with one gateway: memory that one transfer leaves counts for the next."""
    before = gateway.resident()
    seconds = 60 + count // 10_000_000
    for title, function in (("up", up), ("down", down), ("both at once", both)):
        start = time.monotonic()
        with MemorySamples(gateway) as samples:
            samples.before = before
            is_right, error = Task(function, gateway, count, seconds).outcome(seconds)
        took = time.monotonic() - start
        figures = f"{took:.1f} s, {count / took / 1e6:.0f} MB/s{' each way' if 'both' in title else ''}"
        checks.expect(f"{options.megabytes} MB {title} over {protocol} is byte-identical", is_right, error or figures)
        statement = f"memory stays within 16 MiB while {options.megabytes} MB go {title} over {protocol}"
        checks.expect(statement, samples.growth < GROWTH_LIMIT, str(samples))


def is_received(report, count):
    return report.get("bytes") == count and report.get("sha256") == content.digest(SEED_UP, count)


def up_h1(gateway, count, seconds):
    with http1.Client(gateway.port, timeout=seconds) as client:
        client.send("POST", "/sink?id=up", content.pieces(SEED_UP, count), count)
        return client.receive() == 200 and is_received(json.loads(client.body()), count)


def down_h1(gateway, count, seconds):
    download = Download()
    with http1.Client(gateway.port, timeout=seconds) as client:
        client.send("GET", f"/bytes/{count}?seed={SEED_DOWN}")
        client.receive()
        for piece in client.pieces():
            download.take(piece)
    return client.status == 200 and download.count == count and download.is_start_of(SEED_DOWN)


def both_h1(gateway, count, seconds):
    """Two connections at a time, and a chunked upload."""
    up = Task(up_chunked_h1, gateway, count, seconds)
    is_down = down_h1(gateway, count, seconds)
    is_up, error = up.outcome(seconds)
    if error:
        raise http1.Malformed(error)
    return is_down and is_up


def up_chunked_h1(gateway, count, seconds):
    with http1.Client(gateway.port, timeout=seconds) as client:
        client.send("POST", "/sink?id=chunked", content.pieces(SEED_UP, count))
        return client.receive() == 200 and is_received(json.loads(client.body()), count)


def up_h2(gateway, count, seconds):
    return transfer_h2(gateway, count, seconds, is_up=True)


def down_h2(gateway, count, seconds):
    return transfer_h2(gateway, count, seconds, is_down=True)


def both_h2(gateway, count, seconds):
    """Two streams of one connection."""
    return transfer_h2(gateway, count, seconds, is_up=True, is_down=True)


def transfer_h2(gateway, count, seconds, is_up=False, is_down=False):
    download, response, streams = Download(), bytearray(), []
    with http2.Connection(gateway.tls_port) as connection:
        if is_up:
            body = content.pieces(SEED_UP, count)
            streams.append(connection.request("POST", "/sink?id=up2", body, count, take=response.extend))
        if is_down:
            target = f"/bytes/{count}?seed={SEED_DOWN}"
            streams.append(connection.request("GET", target, take=download.take))
        connection.complete(*streams, seconds=seconds)
        for stream in streams:
            if not stream.is_complete or stream.status != 200:
                raise http1.Malformed(f"status {stream.status}, reset {stream.reset}, GOAWAY {connection.goaway}")
    is_right = not is_up or is_received(json.loads(response), count)
    return is_right and (not is_down or download.count == count and download.is_start_of(SEED_DOWN))


# One side slow


def check_slow_sides(environment, checks, protocol, gateway, options, sides):
    """All slow sides concurrently, so that the memory limit applies to all of them together."""
    seconds = options.slow_seconds
    with MemorySamples(gateway) as samples:
        tasks = {name: Task(function, gateway, environment.origin_port, seconds) for name, function in sides.items()}
        for name, task in tasks.items():
            result, error = task.outcome(seconds + 30)
            is_right, figures = result or (False, "")
            checks.expect(f"{name} at 1 MB/s over {protocol}", is_right and not error, error or figures)
    statement = f"memory stays within 16 MiB with {len(sides)} slow sides at a time over {protocol}"
    checks.expect(statement, samples.growth < GROWTH_LIMIT, str(samples))


def format_rate(count, seconds):
    return f"{count / 1e6:.1f} MB in {seconds:.0f} s"


def slow_reader_h1(gateway, _, seconds):
    download, start = Download(), time.monotonic()
    with http1.Client(gateway.port) as client:
        client.send("GET", f"/bytes/{ENDLESS}?seed={SEED_DOWN}")
        client.receive()
        while (passed := time.monotonic() - start) < seconds:
            download.take(next(client.exactly(16_384)))
            time.sleep(max(0, download.count / RATE - passed))
    return download.is_start_of(SEED_DOWN), format_rate(download.count, seconds)


def slow_writer_h1(gateway, _, seconds):
    count, start = RATE * seconds, time.monotonic()

    def body():
        sent = 0
        for piece in content.pieces(SEED_UP, count, 16_384):
            yield piece
            sent += len(piece)
            time.sleep(max(0, start + sent / RATE - time.monotonic()))

    with http1.Client(gateway.port) as client:
        client.send("POST", "/sink?id=slow-writer", body(), count)
        is_right = client.receive() == 200 and is_received(json.loads(client.body()), count)
    return is_right, format_rate(count, seconds)


def slow_upstream_reader_h1(gateway, origin_port, seconds):
    """Sends as much as the gateway accepts. The difference to what the upstream has read is in buffers."""
    start, offered = time.monotonic(), 0
    with http1.Client(gateway.port) as client:
        client.send("POST", f"/sink?id=slow-sink&rate={RATE}", (), ENDLESS)
        client.socket.settimeout(0.2)
        for piece in content.pieces(SEED_UP, ENDLESS):
            rest = memoryview(piece)
            while rest and time.monotonic() - start < seconds:
                try:
                    count = client.socket.send(rest)
                except TimeoutError:
                    continue
                offered += count
                rest = rest[count:]
            if time.monotonic() - start >= seconds:
                break
        return check_sink(origin_port, "slow-sink", offered, seconds)


def check_sink(origin_port, name, offered, seconds):
    report = json.loads(request(f"http://127.0.0.1:{origin_port}/report?id={name}")[2])
    between = offered - report["bytes"]
    is_right = report["sha256"] == content.digest(SEED_UP, report["bytes"]) and report["bytes"] > RATE * seconds // 2
    # The kernel's buffers on both sides hold some MB each; the gateway's memory is checked separately.
    return is_right and between < 40e6, f"{format_rate(report['bytes'], seconds)}, {between / 1e6:.1f} MB in buffers"


def slow_upstream_writer_h1(gateway, _, seconds):
    count, download = RATE * seconds, Download()
    with http1.Client(gateway.port) as client:
        client.send("GET", f"/bytes/{count}?seed={SEED_DOWN}&rate={RATE}&chunked=1")
        client.receive()
        for piece in client.pieces():
            download.take(piece)
    return download.count == count and download.is_start_of(SEED_DOWN), format_rate(count, seconds)


def slow_reader_h2(gateway, _, seconds):
    download = Download()
    with http2.Connection(gateway.tls_port, window=65_535) as connection:
        target = f"/bytes/{ENDLESS}?seed={SEED_DOWN}"
        stream = connection.request("GET", target, take=download.take, rate=RATE)
        connection.complete(stream, seconds=seconds)
    is_right = not stream.is_over and download.count > RATE * seconds // 2
    return is_right and download.is_start_of(SEED_DOWN), format_rate(download.count, seconds)


def slow_writer_h2(gateway, _, seconds):
    count, response = RATE * seconds, bytearray()
    with http2.Connection(gateway.tls_port) as connection:
        body = content.pieces(SEED_UP, count)
        target = "/sink?id=slow-writer2"
        stream = connection.request("POST", target, body, count, take=response.extend, send_rate=RATE)
        connection.complete(stream, seconds=seconds + 20)
    return stream.is_complete and is_received(json.loads(response), count), format_rate(count, seconds)


def slow_upstream_reader_h2(gateway, origin_port, seconds):
    with http2.Connection(gateway.tls_port) as connection:
        target = f"/sink?id=slow-sink2&rate={RATE}"
        stream = connection.request("POST", target, content.pieces(SEED_UP, ENDLESS), ENDLESS)
        connection.complete(stream, seconds=seconds)
        return check_sink(origin_port, "slow-sink2", stream.sent, seconds)


SLOW_H1 = {
    "slow reader": slow_reader_h1,
    "slow writer": slow_writer_h1,
    "slow upstream reader": slow_upstream_reader_h1,
    "slow upstream writer": slow_upstream_writer_h1,
}
SLOW_H2 = {
    "slow reader": slow_reader_h2,
    "slow writer": slow_writer_h2,
    "slow upstream reader": slow_upstream_reader_h2,
}


def check_fairness(checks, gateway):
    """A stream that is not read does not delay another stream of its connection (RFC 9113 §5.2)."""
    count, download = 64_000_000, Download()
    with http2.Connection(gateway.tls_port, window=65_535) as connection:
        stalled = connection.request("GET", f"/bytes/{ENDLESS}?seed={SEED_UP}", rate=1)
        start = time.monotonic()
        stream = connection.request("GET", f"/bytes/{count}?seed={SEED_DOWN}", take=download.take)
        connection.complete(stream, seconds=60)
    is_right = stream.is_complete and download.count == count and download.is_start_of(SEED_DOWN)
    figures = f"{count / 1e6:.0f} MB in {time.monotonic() - start:.1f} s, {stalled.received} bytes on the stalled one"
    checks.expect("a stalled HTTP/2 stream does not delay another stream of its connection", is_right, figures)
