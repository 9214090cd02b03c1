"""A second process listens on the same port, the first is told to end, under load: not one request may fail."""

import json
import time

from rig import Failure
from trials import http2
from trials.bodies import ask
from trials.load import Load

HANDOVERS = 3
STRETCH = 2
DRAIN_SECONDS = 20


def run(stage, verdict, options):
    timeouts = {"drain": f"{DRAIN_SECONDS}s"}
    gateway = stage.gateway(timeouts=timeouts)
    load = Load(gateway)
    load.start(load.short, options.clients // 4)
    load.start(load.kept, options.clients // 4)
    load.start(load.kept, options.clients // 4, 0.02)
    if not options.without_http2:
        try:
            http2.Connection(gateway.tls_port).close()
            load.start(load.streams, options.clients // 8)
        except http2.NotSpoken as error:
            verdict.holds("HTTP/2 clients take part", False, str(error))
    try:
        for number in range(HANDOVERS):
            gateway = hand_over(stage, verdict, load, gateway, timeouts, number + 1)
    except Failure as failure:
        verdict.holds("a second process can take over the port", False, str(failure))
        return
    finally:
        load.stop()
    judge(stage, verdict, load)


def hand_over(stage, verdict, load, gateway, timeouts, number):
    time.sleep(STRETCH)
    admin_port = stage.free_port()
    successor = stage.gateway(ports=(gateway.port, gateway.tls_port, admin_port), take_over=True, timeouts=timeouts)
    time.sleep(STRETCH / 2)
    failures, counts = len(load.failures), load.counts["kept"] + load.counts["short"]
    start = time.monotonic()
    status = stage.stop(gateway)
    took = time.monotonic() - start
    statement = f"handover {number}: the first process finishes and ends by itself"
    verdict.holds(statement, status == 0 and took < DRAIN_SECONDS, f"status {status} after {took:.2f} s")
    time.sleep(STRETCH / 2)
    answered = load.counts["kept"] + load.counts["short"] - counts
    figures = f"{answered} answers, {len(load.failures) - failures} failures"
    verdict.holds(f"handover {number}: the second serves", answered > 0, figures)
    return successor


def judge(stage, verdict, load):
    verdict.figure(load.summary())
    for failure in load.failures[:10]:
        verdict.figure(failure)
    verdict.holds("no request failed", not load.failures and load.counts["kept"] > 0, f"{len(load.failures)} failed")
    lost(stage, verdict, load)


def lost(stage, verdict, load):
    """A connection that is closed while idle has had no request: the upstream must not have seen it."""
    seen = set(json.loads(ask(stage.origin_port, "/seen")))
    forwarded = [target for target in load.retried if target in seen]
    figures = f"{len(load.retried)} sent again, {len(forwarded)} of them had been forwarded"
    verdict.holds("only connections without a request were closed without an answer", not forwarded, figures)
