"""What tells about the gateway never holds it up: a dead collector, a full pipe, a huge scrape; nothing is left behind."""

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
    starts(environment, checks)
    paths(environment, checks, options.paths)
    scrape(environment, checks)
    stuck(environment, checks)
    last_words(environment, checks)


def starts(environment, checks):
    """From the command to /ready. The best of three: what else the machine does is not the gateway's."""
    seconds = []
    for _ in range(3):
        ports = free_ports(3)
        begun = time.monotonic()
        ready = threading.Event()
        threading.Thread(target=is_ready, args=(ports[2], ready), daemon=True).start()
        gateway = environment.gateway(ports=ports)
        ready.wait(10)
        seconds.append(ready.moment - begun)
        gateway.stop()
    checks.expect("it is ready within a second", min(seconds) < 1, ", ".join(f"{each:.2f} s" for each in seconds))


def is_ready(admin_port, ready):
    deadline = time.monotonic() + 10
    ready.moment = deadline
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if urllib.request.urlopen(f"http://127.0.0.1:{admin_port}/ready", timeout=1).status == 200:
                ready.moment = time.monotonic()
                break
        time.sleep(0.005)
    ready.set()


def paths(environment, checks, count):
    """Paths that nobody asks for twice, on a route with a pattern and on none."""
    gateway = environment.gateway(routes=[route("all", "/load/{id}", "api", ["GET"])], warm_up=False)

    def ask(first):
        with http1.Client(gateway.port) as client:
            for number in range(first, count, 8):
                client.get(f"/load/{number:x}" if number % 2 else f"/nowhere/{number:x}")

    # One of either kind, so that their series are there.
    ask(count - 2)
    ask(count - 1)
    # A request is counted after its answer; there was a first one when the gateway began.
    gateway.settle(lambda: 3 - requests(gateway), 0, seconds=10)
    before = series(gateway)
    threads = [threading.Thread(target=ask, args=(first,)) for first in range(8)]
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


def scrape(environment, checks):
    """Every route has been answered with every status; then somebody scrapes all of it, again and again."""
    routes = [route(f"route-{number}", f"/r{number}/*", "api", ["GET"]) for number in range(ROUTES)]
    routes.append(route("bystander", "/bystander/{number}", "bystander", ["GET"]))
    gateway = environment.gateway(routes=routes, warm_up=False)
    with http1.Client(gateway.port) as client:
        for number in range(ROUTES):
            for status in STATUSES:
                client.get(f"/r{number}/x?status={status}")
    url = f"http://127.0.0.1:{gateway.admin_port}/metrics"
    # The first one opens the connection's path through the code.
    request(url)
    with BystanderClient(gateway) as bystander:
        seconds, text = scrapes(url)
        if statistics.median(seconds) >= SCRAPE_SECONDS:
            checks.note(f"once more: {milliseconds(seconds)}")
            seconds = min(seconds, scrapes(url)[0], key=statistics.median)
    count = text.count(b"http_server_request_duration_seconds_count{")
    figures = f"{milliseconds(seconds)}, {count} series of one family, {len(text) / MIB:.1f} MiB"
    what = f"a scrape of {ROUTES} routes × {len(STATUSES)} statuses takes less than {SCRAPE_SECONDS * 1e3:.0f} ms"
    checks.expect(what, statistics.median(seconds) < SCRAPE_SECONDS, figures)
    checks.expect("and all of them are in it", count >= ROUTES * len(STATUSES))
    bystander.check(checks, "and delays nobody", p99=0.25)
    gateway.stop()


def scrapes(url):
    """How long each of several scrapes took, and what the last one said."""
    seconds, text = [], b""
    until = time.monotonic() + BASE_SECONDS
    while time.monotonic() < until:
        begun = time.monotonic()
        _, _, text = request(url)
        seconds.append(time.monotonic() - begun)
        time.sleep(0.2)
    return seconds, text


def milliseconds(seconds):
    return f"median {statistics.median(seconds) * 1e3:.0f} ms, at best {min(seconds) * 1e3:.0f} ms"


def stuck(environment, checks):
    """A collector that is down, mute or busy, and a pipe for the log that nobody reads."""
    port, gone = free_ports(2)
    environment.start_module("scenarios.collector", str(port), port=port)
    for name, mode, at in (("down", None, gone), ("mute", "mute", port), ("busy", "busy", port)):
        if mode:
            request(f"http://127.0.0.1:{port}/mode/{mode}", method="POST")
        trial = Stuck(environment, at)
        if trial.excess >= 1:
            # What else the machine does slows one of the two down at times; what the gateway does comes again.
            checks.note(f"once more, as there was a delay: {trial}")
            trial = min(trial, Stuck(environment, at), key=lambda each: each.excess)
        what = f"a collector that is {name}, and a log that nobody reads"
        checks.expect(f"{what}, make no request slower", trial.excess < 1, f"{trial}")
        counted = f"{trial.spans:,.0f} spans, {trial.lines:,.0f} lines"
        checks.expect("what is dropped is counted", trial.spans > 0 and trial.lines > 0, counted)
        checks.expect("memory stays", trial.samples.growth < 24 * MIB, f"{trial.samples}")
    request(f"http://127.0.0.1:{port}/mode/ok", method="POST")


class Stuck:
    """A gateway without telemetry, and right after it one whose collector and log do not keep up."""

    def __init__(self, environment, collector):
        quiet = environment.gateway(tracing={"exporter": "none"}, logging={"accessLog": False})
        self.base = latency(quiet)
        quiet.stop()
        with full_pipe(environment) as pipe:
            gateway = environment.gateway(log=pipe, tracing=tracing(collector, queueLimit=256, batchLimit=64))
            with MemorySamples(gateway) as self.samples:
                self.told = latency(gateway)
            self.spans = gateway.metric("cloakroom_telemetry_dropped_total", signal="traces")
            self.lines = gateway.metric("cloakroom_telemetry_dropped_total", signal="logs")
            gateway.stop()

    @property
    def excess(self):
        """The delay as a share of what is allowed. Writing a line and making two spans takes a part of a millisecond;
        waiting for anybody would take seconds."""
        return max((self.told.median - self.base.median) / 0.002, (self.told.p99 - self.base.p99) / 0.02)

    def __str__(self):
        return f"{self.told}; without telemetry {self.base}"


def last_words(environment, checks):
    """Everything that happened before SIGTERM is told."""
    port = free_port()
    environment.start_module("scenarios.collector", str(port), port=port)
    # A minute between batches: whatever arrives does because the gateway ends.
    gateway = environment.gateway(tracing=tracing(port, interval="1m", queueLimit=100_000))
    count = 300
    with http1.Client(gateway.port) as client:
        for number in range(count):
            client.get(f"/load/{number}")
    status = gateway.stop()
    _, _, told = request(f"http://127.0.0.1:{port}/count")
    spans = json.loads(told)["spans"]
    lines = sum('"path":"/load/' in line for line in open(gateway.process.log, encoding="utf-8"))
    # A server and a client span each, and those of the first request of all.
    figures = f"status {status}, {spans} spans, {lines} lines of {count} requests"
    checks.expect("a stop leaves no span and no line behind", status == 0 and spans >= 2 * count and lines == count, figures)


def tracing(port, **otlp):
    endpoint = {"endpoint": f"http://127.0.0.1:{port}/v1/traces", "interval": "100ms", **otlp}
    return {"exporter": "otlp", "sampler": "always_on", "otlp": endpoint}


@contextlib.contextmanager
def full_pipe(environment):
    """A pipe in the file system with somebody at its other end who never reads."""
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
    """How long clients wait who ask one request after the other."""
    until, waits = time.monotonic() + seconds, []

    def ask():
        mine = []
        with http1.Client(gateway.port) as client:
            while time.monotonic() < until:
                begun = time.monotonic()
                # Long enough for lines to fill what the gateway keeps of them.
                client.get("/load/" + "x" * 1_000)
                mine.append(time.monotonic() - begun)
        waits.extend(mine)

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Latency(waits)
