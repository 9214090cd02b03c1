"""Heads and TLS handshakes at one byte per second: 408 or a closed connection, in time."""

import collections
import selectors
import socket
import time

from harness.measure import MIB, MemorySamples
from scenarios.bystander import BystanderClient

HEADER_SECONDS = 5
# How much later than the timeout the gateway may respond.
SLACK_SECONDS = 3
HEAD = b"GET /slow HTTP/1.1\r\nHost: localhost\r\nX-Padding: " + b"x" * 1000
# The beginning of a TLS record with an incomplete ClientHello.
HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 500


def run(environment, checks, options):
    gateway = environment.gateway(timeouts={"header": f"{HEADER_SECONDS}s"})
    descriptors = gateway.descriptors()
    clear, tls = options.heads, options.heads // 10
    ends = {"clear": [], "tls": []}
    with MemorySamples(gateway) as samples, BystanderClient(gateway) as bystander:
        kinds = [("clear", gateway.port, HEAD)] * clear + [("tls", gateway.tls_port, HELLO)] * tls
        heads = [Head(kind, port, text, number) for number, (kind, port, text) in enumerate(kinds)]
        dribble(heads, HEADER_SECONDS + SLACK_SECONDS + 5)
        for head in heads:
            ends[head.kind].append(head)
    for kind, title in (("clear", "heads at a byte per second"), ("tls", "handshakes at a byte per second")):
        check_ends(checks, title, ends[kind])
    bystander.check(checks, f"other clients are served during {clear} slow heads")
    left = gateway.settle(gateway.descriptors, descriptors, 10)
    checks.expect("descriptors are released", left <= descriptors, f"{descriptors} before, {left} after")
    after = gateway.settle(gateway.resident, samples.before + 16 * MIB, 10)
    checks.expect(
        "memory is released within 16 MiB", after <= samples.before + 16 * MIB, f"{samples}, {after / MIB:.1f} MiB after"
    )
    gateway.stop()


def check_ends(checks, title, heads):
    ended = [head for head in heads if head.ended_after is not None]
    kinds = collections.Counter(head.end for head in ended)
    in_time = [head for head in ended if head.ended_after <= HEADER_SECONDS + SLACK_SECONDS]
    early = [head for head in ended if head.ended_after < HEADER_SECONDS - 0.5]
    times = [head.ended_after for head in ended] or [0]
    figures = ", ".join(f"{count} × {end}" for end, count in kinds.most_common())
    figures += f"; after {min(times):.1f} to {max(times):.1f} s (timeout {HEADER_SECONDS} s), "
    figures += f"{len(heads) - len(ended)} still open"
    is_right = len(in_time) == len(heads) and not early and set(kinds) <= {"408", "closed"}
    checks.expect(f"{len(heads)} {title} end with 408 or a closed connection", is_right, figures)


class Head:
    """One connection and its progress."""

    def __init__(self, kind, port, text, number):
        self.kind, self.text, self.sent = kind, text, 0
        self.end, self.ended_after = None, None
        self.socket = socket.create_connection(("127.0.0.1", port), 10, (f"127.0.2.{1 + number % 50}", 0))
        self.socket.setblocking(False)
        self.start = time.monotonic()

    def step(self):
        self.socket.send(self.text[self.sent : self.sent + 1])
        self.sent += 1

    def read(self):
        """Records the response or the end, if there is one."""
        try:
            piece = self.socket.recv(4096)
        except BlockingIOError:
            return
        except OSError as error:
            piece, self.end = b"", "closed" if isinstance(error, ConnectionError) else repr(error)
        self.ended_after = time.monotonic() - self.start
        if self.end is None:
            self.end = piece[9:12].decode("latin-1") if piece.startswith(b"HTTP/1.1 ") else "closed"
        if self.kind == "tls" and piece[:1] == b"\x15":
            self.end = "closed"


def dribble(heads, seconds):
    """Sends a byte per second on each connection until all have ended or the time is over."""
    with selectors.DefaultSelector() as selector:
        for head in heads:
            selector.register(head.socket, selectors.EVENT_READ, head)
        start = time.monotonic()
        steps = 0
        while selector.get_map() and time.monotonic() - start < seconds:
            if time.monotonic() - start >= steps:
                steps += 1
                for key in list(selector.get_map().values()):
                    try:
                        key.data.step()
                    except OSError:
                        # It has ended, which the read below detects.
                        pass
            for key, _ in selector.select(max(0.001, start + steps - time.monotonic())):
                key.data.read()
                if key.data.end:
                    selector.unregister(key.fileobj)
    for head in heads:
        head.socket.close()
