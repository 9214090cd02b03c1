"""A second process binds the same port and the first one is stopped, under load: no request may fail."""

import json
import time

from harness.command import Failure
from harness.http import request
from harness.ports import free_port
from scenarios import http2
from scenarios.load import Load

STRETCH = 2
DRAIN_SECONDS = 20


def run(environment, checks, options):
    timeouts = {"drain": f"{DRAIN_SECONDS}s"}
    gateway = environment.gateway(timeouts=timeouts)
    load = Load(gateway)
    load.start(load.short, options.clients // 4)
    load.start(load.persistent, options.clients // 4)
    load.start(load.persistent, options.clients // 4, 0.02)
    if not options.without_http2:
        try:
            http2.Connection(gateway.tls_port).close()
            load.start(load.streams, options.clients // 8)
        except http2.NotSupported as error:
            checks.expect("HTTP/2 clients take part", False, str(error))
    try:
        for number in range(options.handovers):
            gateway = hand_over(environment, checks, load, gateway, timeouts, number + 1)
    except Failure as failure:
        checks.expect("a second process can bind the same port", False, str(failure))
        return
    finally:
        load.stop()
    check(environment, checks, load)


def hand_over(environment, checks, load, gateway, timeouts, number):
    time.sleep(STRETCH)
    admin_port = free_port()
    successor = environment.gateway(ports=(gateway.port, gateway.tls_port, admin_port), take_over=True, timeouts=timeouts)
    time.sleep(STRETCH / 2)
    failures, counts = len(load.failures), load.counts["persistent"] + load.counts["short"]
    start = time.monotonic()
    status = gateway.stop()
    took = time.monotonic() - start
    statement = f"handover {number}: the first process drains and exits"
    checks.expect(statement, status == 0 and took < DRAIN_SECONDS, f"status {status} after {took:.2f} s")
    time.sleep(STRETCH / 2)
    responses = load.counts["persistent"] + load.counts["short"] - counts
    figures = f"{responses} responses, {len(load.failures) - failures} failures"
    checks.expect(f"handover {number}: the second serves", responses > 0, figures)
    return successor


def check(environment, checks, load):
    checks.note(load.summary())
    for failure in load.failures[:10]:
        checks.note(failure)
    checks.expect("no request failed", not load.failures and load.counts["persistent"] > 0, f"{len(load.failures)} failed")
    check_retries(environment, checks, load)


def check_retries(environment, checks, load):
    """Requests on a connection that was closed while idle must not have reached the upstream."""
    seen = set(json.loads(request(f"http://127.0.0.1:{environment.origin_port}/seen")[2]))
    forwarded = [target for target in load.retried if target in seen]
    figures = f"{len(load.retried)} repeated, {len(forwarded)} of them had been forwarded"
    checks.expect("only connections without a request were closed without a response", not forwarded, figures)
