"""Two gateways and one Redis: a logout token that the provider posts to one closes a WebSocket at the other."""

import base64
import statistics
import struct
import threading
import time

from harness.command import Failure
from scenarios import http1, provider_helpers
from scenarios.replicas import Redis

ROUNDS = 20
LIMIT = 0.2


def run(environment, checks, options):
    redis = Redis(environment)
    provider = provider_helpers.Provider(environment, 3_600)
    origin = provider_helpers.audience_origin(environment)
    session = {"store": "valkey", "valkey": {"addresses": [f"127.0.0.1:{redis.port}"]}}
    routes = [provider_helpers.route("socket", "/api/socket", "api", "bearer", websocket=True)]
    first, second = (
        provider_helpers.gateway(environment, provider, origin, routes, session=session) for _ in range(2)
    )
    delays, codes = [], []
    for number in range(ROUNDS):
        # Each user signs in once: a logout of all sessions of a user concerns the logins of the same second too.
        provider.script(subject=f"user-{number}")
        cookie = provider_helpers.log_in(first)
        login = provider.last_login()
        claims = {"sid": login["sid"]} if number % 2 else {"sub": login["sub"]}
        with Socket(second.port, cookie) as socket:
            start = time.monotonic()
            status = provider.send_logout(f"{first.url}/auth/backchannel", **claims)
            responded = time.monotonic()
            if status != 200:
                raise Failure(f"the logout token is rejected with {status}")
            socket.closed.wait(10)
            delays.append(socket.moment - start)
            codes.append(socket.code)
            # Both orders are correct: the response, and the end of the session at the other gateway.
            checks.note(f"{number}: closed after {delays[-1] * 1e3:.1f} ms, responded after {(responded - start) * 1e3:.1f} ms")
    checks.expect("the close code is 1008", set(codes) == {1008}, f"{set(codes)}")
    limit = LIMIT * options.slack
    figures = f"median {statistics.median(delays) * 1e3:.1f} ms, at most {max(delays) * 1e3:.1f} ms of {ROUNDS}"
    statement = "a logout token posted to one gateway closes a WebSocket at the other within"
    checks.expect(f"{statement} {limit * 1e3:.0f} ms", max(delays) <= limit, figures)


class Socket:
    """A WebSocket that notes when it is closed, and with which code."""

    def __init__(self, port, cookie):
        self.client = http1.Client(port, timeout=30)
        self.closed = threading.Event()
        self.moment, self.code = float("inf"), 0
        key = base64.b64encode(bytes(16)).decode()
        fields = f"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
        self.client.send("GET", "/api/socket", fields=fields + cookie)
        self.client.read_head()
        if self.client.status != 101:
            raise Failure(f"no WebSocket: status {self.client.status}")
        self.thread = threading.Thread(target=self.wait, daemon=True)
        self.thread.start()

    def wait(self):
        frame = self.client.buffer
        try:
            while len(frame) < 4:
                if not (piece := self.client.socket.recv(4_096)):
                    break
                frame += piece
        except OSError:
            pass
        self.moment = time.monotonic()
        if frame[:1] == b"\x88" and len(frame) >= 4:
            self.code = struct.unpack("!H", frame[2:4])[0]
        self.closed.set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.socket.close()
