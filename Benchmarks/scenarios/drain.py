"""SIGTERM under load: in-flight requests complete, clients receive `Connection: close` and GOAWAY, and no error."""

import json
import signal
import time

from scenarios import content, http1, http2
from scenarios.bodies import SEED_DOWN, SEED_UP, Download, Task, is_received
from scenarios.load import Load
from scenarios.upgrade import check_retries

SECONDS = 4
COUNT = SECONDS * 1_000_000
DRAIN_SECONDS = 20


def run(environment, checks, options):
    gateway = environment.gateway(timeouts={"drain": f"{DRAIN_SECONDS}s"})
    load = Load(gateway)
    load.stops_on_close = True
    load.start(load.persistent, options.clients // 2)
    load.start(load.persistent, options.clients // 2, 0.02)
    long = {"download": Task(download, gateway), "upload": Task(upload, gateway)}
    has_http2 = not options.without_http2
    if has_http2:
        try:
            http2.Connection(gateway.tls_port).close()
            load.start(load.streams, options.clients // 8)
            long["HTTP/2 download"] = Task(download_h2, gateway)
        except http2.NotSupported as error:
            has_http2 = checks.expect("HTTP/2 clients take part", False, str(error))
    time.sleep(1.5)
    gateway.process.signal(signal.SIGTERM)
    start = time.monotonic()
    for thread in load.threads:
        thread.join(10)
    elapsed = time.monotonic() - start
    for name, task in long.items():
        is_right, error = task.outcome(DRAIN_SECONDS)
        checks.expect(f"an in-flight {name} completes", is_right, error or f"{SECONDS} s long")
    status = gateway.process.process.wait(DRAIN_SECONDS + 10)
    took = time.monotonic() - start
    load.stop()
    checks.note(load.summary())
    for failure in load.failures[:10]:
        checks.note(failure)
    # How many persistent connections are idle at that moment, and are closed without a response, is random. The upload is
    # not: its response follows the signal.
    figures = f"the upload's, and {load.counts['Connection: close']} more, {load.counts['closed while idle']} closed while idle"
    is_signalled = long["upload"].outcome(0)[0]
    checks.expect("responses after the signal have Connection: close", is_signalled, f"{figures}, within {elapsed:.2f} s")
    if has_http2:
        checks.expect("HTTP/2 clients receive GOAWAY", load.counts["GOAWAY"] > 0, f"{load.counts['GOAWAY']} connections")
    checks.expect("no client sees an error", not load.failures, f"{len(load.failures)} errors")
    check_retries(environment, checks, load)
    checks.expect(
        "the process exits", status == 0 and took < SECONDS + 3, f"status {status} after {took:.1f} s"
    )


def download(gateway):
    result = Download()
    with http1.Client(gateway.port) as client:
        client.send("GET", f"/bytes/{COUNT}?seed={SEED_DOWN}&rate=1000000&chunked=1")
        client.receive()
        for piece in client.pieces():
            result.take(piece)
    return result.count == COUNT and result.is_start_of(SEED_DOWN)


def upload(gateway):
    def body():
        for piece in content.pieces(SEED_UP, COUNT, 16_384):
            time.sleep(len(piece) / 1e6)
            yield piece

    with http1.Client(gateway.port) as client:
        client.send("POST", "/sink?id=drain", body(), COUNT)
        is_right = client.receive() == 200 and is_received(json.loads(client.body()), COUNT)
        return is_right and not client.persists


def download_h2(gateway):
    result = Download()
    with http2.Connection(gateway.tls_port) as connection:
        target = f"/bytes/{COUNT}?seed={SEED_DOWN}&rate=1000000"
        stream = connection.request("GET", target, take=result.take)
        connection.complete(stream, seconds=SECONDS + 10)
        if not connection.goaway:
            raise http2.ConnectionEnded("no GOAWAY received")
    return stream.is_complete and result.count == COUNT and result.is_start_of(SEED_DOWN)
