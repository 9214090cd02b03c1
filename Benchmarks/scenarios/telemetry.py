"""Telemetry never delays requests: a stopped collector, a full pipe, a large scrape. A stop loses no record."""

import contextlib
import json
import os
import statistics
import threading
import time
import urllib.request

from harness.gateway import route
from harness.http import request
from harness.measure import MIB, MemorySamples
from harness.ports import free_port, free_ports
from scenarios import http1
from scenarios.bystander import BystanderClient

ROUTES, STATUSES = 500, (200, 201, 204, 301, 304, 400, 404, 409, 500, 503)
BASE_SECONDS, SCRAPE_SECONDS = 3, 0.05


def run(environment, checks, options):
    check_start(environment, checks, options.slack)
    check_cardinality(environment, checks, options.paths)
    check_scrape(environment, checks, SCRAPE_SECONDS * options.slack)
    check_backpressure(environment, checks)
    check_stop(environment, checks)


def check_start(environment, checks, limit):
    """From the command to /ready. The best of three, because of other load on the machine."""
    seconds = []
    for _ in range(3):
        ports = free_ports(3)
        start = time.monotonic()
        ready = threading.Event()
        threading.Thread(target=wait_until_ready, args=(ports[2], ready), daemon=True).start()
        gateway = environment.gateway(ports=ports)
        ready.wait(10)
        seconds.append(ready.moment - start)
        gateway.stop()
    checks.expect(f"it is ready within {limit:g} s", min(seconds) < limit, ", ".join(f"{each:.2f} s" for each in seconds))


def wait_until_ready(admin_port, ready):
    deadline = time.monotonic() + 10
    ready.moment = deadline
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if urllib.request.urlopen(f"http://127.0.0.1:{admin_port}/ready", timeout=1).status == 200:
                ready.moment = time.monotonic()
                break
        time.sleep(0.005)
    ready.set()


def check_cardinality(environment, checks, count):
    """Paths that are requested once, on a route with a pattern and without a route."""
    gateway = environment.gateway(routes=[route("all", "/load/{id}", "api", ["GET"])], warm_up=False)

    def send_requests(first):
        with http1.Client(gateway.port) as client:
            for number in range(first, count, 8):
                client.get(f"/load/{number:x}" if number % 2 else f"/nowhere/{number:x}")

    # One of each kind, so that their series exist.
    send_requests(count - 2)
    send_requests(count - 1)
    # A request is counted after its response. The environment has sent the first one.
    gateway.settle(lambda: 3 - requests(gateway), 0, seconds=10)
    before = series(gateway)
    threads = [threading.Thread(target=send_requests, args=(first,)) for first in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gateway.settle(lambda: count + 3 - requests(gateway), 0, seconds=10)
    counted = requests(gateway)
    after = series(gateway)
    figures = f"{counted:,.0f} requests, {before} series before and {after} after"
    checks.expect(f"{count:,} different paths add no series", after == before and counted >= count, figures)
    gateway.stop()


def requests(gateway):
    return gateway.metric("http_server_request_duration_seconds_count")


def series(gateway):
    return sum(1 for line in gateway.metrics().splitlines() if line and not line.startswith("#"))


def check_scrape(environment, checks, limit):
    """Repeated scrapes after a response with every status on every route."""
    routes = [route(f"route-{number}", f"/r{number}/*", "api", ["GET"]) for number in range(ROUTES)]
    routes.append(route("bystander", "/bystander/{number}", "bystander", ["GET"]))
    gateway = environment.gateway(routes=routes, warm_up=False)
    with http1.Client(gateway.port) as client:
        for number in range(ROUTES):
            for status in STATUSES:
                client.get(f"/r{number}/x?status={status}")
    url = f"http://127.0.0.1:{gateway.admin_port}/metrics"
    # Not measured: initialization.
    request(url)
    with BystanderClient(gateway) as bystander:
        seconds, text = scrapes(url)
        if statistics.median(seconds) >= limit:
            checks.note(f"second attempt: {format_milliseconds(seconds)}")
            seconds = min(seconds, scrapes(url)[0], key=statistics.median)
    count = text.count(b"http_server_request_duration_seconds_count{")
    figures = f"{format_milliseconds(seconds)}, {count} series of one family, {len(text) / MIB:.1f} MiB"
    what = f"a scrape of {ROUTES} routes × {len(STATUSES)} statuses takes less than {limit * 1e3:.0f} ms"
    checks.expect(what, statistics.median(seconds) < limit, figures)
    checks.expect("and contains all series", count >= ROUTES * len(STATUSES))
    bystander.check(checks, "and delays no request", p99=0.25)
    gateway.stop()


def scrapes(url):
    """The durations of several scrapes, and the text of the last one."""
    seconds, text = [], b""
    until = time.monotonic() + BASE_SECONDS
    while time.monotonic() < until:
        start = time.monotonic()
        _, _, text = request(url)
        seconds.append(time.monotonic() - start)
        time.sleep(0.2)
    return seconds, text


def format_milliseconds(seconds):
    return f"median {statistics.median(seconds) * 1e3:.0f} ms, at best {min(seconds) * 1e3:.0f} ms"


def check_backpressure(environment, checks):
    """A collector that is stopped, silent or busy, and a log pipe that is not read."""
    port, closed_port = free_ports(2)
    environment.start_module("scenarios.collector", str(port), port=port)
    base = latency_without(environment)
    for name, mode, at in (("stopped", None, closed_port), ("silent", "silent", port), ("busy", "busy", port)):
        if mode:
            request(f"http://127.0.0.1:{port}/mode/{mode}", method="POST")
        result = Backpressure(environment, at, base)
        if result.excess >= 1:
            # Other load may have delayed one of the two, so both are measured again. A delay by the gateway repeats.
            checks.note(f"second attempt after a delay: {result}")
            base = latency_without(environment)
            result = min(result, Backpressure(environment, at, base), key=lambda each: each.excess)
        what = f"a collector that is {name}, and a log that is not read"
        checks.expect(f"{what}, make no request slower", result.excess < 1, f"{result}")
        counted = f"{result.spans:,.0f} spans, {result.lines:,.0f} lines"
        checks.expect("dropped records are counted", result.spans > 0 and result.lines > 0, counted)
        checks.expect("memory is stable", result.samples.growth < 24 * MIB, f"{result.samples}")
    request(f"http://127.0.0.1:{port}/mode/ok", method="POST")


def latency_without(environment):
    """The latency of a gateway without telemetry."""
    gateway = environment.gateway(tracing={"exporter": "none"}, logging={"accessLog": False})
    result = latency(gateway)
    gateway.stop()
    return result


class Backpressure:
    """Latency with a collector and a log that block, compared with that without telemetry."""

    def __init__(self, environment, collector, base):
        self.base = base
        with full_pipe(environment) as pipe:
            gateway = environment.gateway(log=pipe, tracing=tracing(collector, queueLimit=256))
            with MemorySamples(gateway) as self.samples:
                self.blocked = latency(gateway)
            self.spans = gateway.metric("cloakroom_telemetry_dropped_total", signal="traces")
            self.lines = gateway.metric("cloakroom_telemetry_dropped_total", signal="logs")
            gateway.stop()

    @property
    def excess(self):
        """The delay as a fraction of the limit. A log line and two spans take less than a millisecond; blocking would take
        seconds."""
        return max((self.blocked.median - self.base.median) / 0.002, (self.blocked.p99 - self.base.p99) / 0.02)

    def __str__(self):
        return f"{self.blocked}; without telemetry {self.base}"


def check_stop(environment, checks):
    """All records from before SIGTERM are written."""
    port = free_port()
    environment.start_module("scenarios.collector", str(port), port=port)
    # A minute between batches, so that only the stop exports spans.
    gateway = environment.gateway(tracing=tracing(port, interval="1m", queueLimit=100_000))
    count = 300
    with http1.Client(gateway.port) as client:
        for number in range(count):
            client.get(f"/load/{number}")
    status = gateway.stop()
    _, _, body = request(f"http://127.0.0.1:{port}/count")
    spans = json.loads(body)["spans"]
    lines = sum('"path":"/load/' in line for line in open(gateway.process.log, encoding="utf-8"))
    # A server and a client span per request, and those of the environment's first request.
    figures = f"status {status}, {spans} spans, {lines} lines of {count} requests"
    checks.expect("a stop loses no span and no line", status == 0 and spans >= 2 * count and lines == count, figures)


def tracing(port, **otlp):
    endpoint = {"endpoint": f"http://127.0.0.1:{port}/v1/traces", "interval": "100ms", **otlp}
    return {"exporter": "otlp", "sampler": "always_on", "otlp": endpoint}


@contextlib.contextmanager
def full_pipe(environment):
    """A named pipe whose other end is open and never read."""
    path = environment.folder / f"pipe-{environment.gateway_count}"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield path
    finally:
        os.close(reader)


class Latency:
    def __init__(self, seconds):
        ordered = sorted(seconds)
        self.count = len(ordered)
        self.median = statistics.median(ordered)
        self.p99 = ordered[int(len(ordered) * 0.99)]

    def __str__(self):
        return f"{self.count} requests, median {self.median * 1e3:.2f} ms, p99 {self.p99 * 1e3:.2f} ms"


def latency(gateway, seconds=BASE_SECONDS, clients=4):
    """The response times of clients with sequential requests."""
    until, waits = time.monotonic() + seconds, []

    def send_requests():
        own = []
        with http1.Client(gateway.port) as client:
            while time.monotonic() < until:
                start = time.monotonic()
                # Long enough for log lines to fill the gateway's buffer.
                client.get("/load/" + "x" * 1_000)
                own.append(time.monotonic() - start)
        waits.extend(own)

    threads = [threading.Thread(target=send_requests) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Latency(waits)
