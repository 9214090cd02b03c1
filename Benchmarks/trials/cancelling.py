"""Trial 8: a client that leaves takes its request with it: the upstream connection is closed at once."""

import itertools
import json
import math
import socket
import struct
import time

from trials.odd_servers import start_scripted_server
from trials.policy import Policy
from trials.trial import Trial

COUNT = 40


def leave(port, path, by_reset):
    """Sends a request, and closes the connection after 50 ms. Returns the time of that in ns."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        time.sleep(0.05)
        if by_reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return time.monotonic_ns()


class Cancelled(Trial):
    name = "8 cancelled"
    title = f"{COUNT} clients that leave before the response, half by FIN and half by RST"
    policy = Policy()
    has_load = False
    thing = "connection is closed"

    def script(self, lane):
        milliseconds = []
        for number in range(COUNT):
            before = self.aborted(lane)
            closed = leave(lane.port, "/hang", by_reset=number % 2)
            deadline = time.monotonic() + 1
            while self.aborted(lane) == before and time.monotonic() < deadline:
                time.sleep(0.002)
            seen = max(origin.panel.last_abort for origin in lane.origins)
            milliseconds.append((seen - closed) / 1e6 if self.aborted(lane) > before else math.inf)
        lane.facts["milliseconds"] = sorted(round(each, 1) for each in milliseconds)
        time.sleep(0.5)
        lane.facts["open"] = sum(origin.panel.open for origin in lane.origins)

    @staticmethod
    def aborted(lane):
        return sum(origin.panel.aborted for origin in lane.origins)

    def judge(self, lane, machine):
        values = lane.facts["milliseconds"]
        figures = f"median {values[len(values) // 2]:.1f}, highest {values[-1]:.1f} ms"
        # One in twenty may meet a process that is not scheduled.
        most = values[math.ceil(COUNT * 0.95) - 1]
        lane.at_most(f"time until the upstream {self.thing}", most, 50, "ms", figures, is_timing=True)
        lane.goal("each is closed", math.isfinite(values[-1]), f"{sum(map(math.isfinite, values))} of {COUNT}")
        lane.at_most("upstream connections that are left", lane.facts["open"], 12)

    def row(self, lane):
        return {"errors": 0, "victims": 0, "p50": math.nan, "p99": math.nan, "attempts": 1.0, "cpu": math.nan}


class CancelledStreams(Cancelled):
    """The same over HTTP/2 to the upstream: the stream is reset, and the connection stays."""

    name = "8 cancelled, HTTP/2"
    title = f"{COUNT} clients that leave before the response, HTTP/2 to the upstream"
    policy = Policy(protocol="h2c")
    contenders = ("cloakroom", "envoy")
    thing = "stream is reset"

    def adapt(self, lane):
        start_scripted_server(self, lane, "hang")

    def script(self, lane):
        closed = []
        for number in range(COUNT):
            closed.append(leave(lane.port, "/odd", by_reset=number % 2))
            time.sleep(0.06)
        time.sleep(1)
        counts = json.loads(lane.file.read_text())
        pairs = itertools.zip_longest(closed, counts["resets"])
        lane.facts["milliseconds"] = sorted(
            round((seen - left) / 1e6, 1) if seen and left else math.inf for left, seen in pairs
        )
        lane.facts["open"] = counts["connections"]


TRIALS = (Cancelled, CancelledStreams)
