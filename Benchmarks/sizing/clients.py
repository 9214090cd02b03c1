"""Clients of a gateway: many requests on a few persistent connections, one after the other on each."""

import random
import selectors
import socket
import time

from harness.command import Failure
from harness.http import basic_credentials
from scenarios.session_helpers import PASSWORD

CONNECTIONS = 16


def sign_in_request(number):
    credentials = basic_credentials(f"user-{number}@example.com", PASSWORD)
    return f"POST /auth HTTP/1.1\r\nHost: localhost\r\nAuthorization: {credentials}\r\nContent-Length: 0\r\n\r\n".encode()


def sign_out_request(cookie):
    return b"DELETE /auth HTTP/1.1\r\nHost: localhost\r\nCookie: %b\r\n\r\n" % cookie


def api_request(cookie, path=b"/videos/1"):
    """A request that is forwarded with the access token of the session."""
    return b"GET %b HTTP/1.1\r\nHost: localhost\r\nCookie: %b\r\n\r\n" % (path, cookie)


def at_rate(load, rate, jobs):
    """The jobs at random times, with this number of them per second on average."""
    at = time.monotonic()
    for job in jobs:
        at += random.expovariate(rate)
        if at > time.monotonic():
            load.pause(at)
        yield job


def cookie_of(head):
    """The cookie that a response sets, as `name=value`."""
    return head.partition(b"\r\nSet-Cookie: ")[2].partition(b";")[0]


class Connection:
    """A connection with one request at a time, from a client address of its own: sign-ins are counted by address."""

    def __init__(self, port, number):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(f"127.0.1.{number}", 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer, self.body, self.done = b"", b"", None

    def send(self, request, done):
        self.done = done
        self.socket.sendall(request)

    def receive(self):
        """Reads, and returns the head of the response once it is complete."""
        piece = self.socket.recv(65_536)
        if not piece:
            raise Failure("the gateway has closed a connection of the load")
        self.buffer += piece
        head, separator, body = self.buffer.partition(b"\r\n\r\n")
        if not separator:
            return None
        found = head.lower().partition(b"\r\ncontent-length:")[2].split(b"\r\n", 1)[0]
        if not found and head[9:12] != b"204":
            raise Failure(f"a response of the gateway without a length: {head[:200]!r}")
        if len(body) < int(found or 0):
            return None
        self.buffer, self.body = b"", body
        return head


class Load:
    """Sends requests to several gateways. A job is the number of the gateway, the request, and a function that gets the
    head of its response, or None. Each response has to have one of the statuses."""

    def __init__(self, gateways, statuses=(b"200", b"204")):
        self.statuses = statuses
        self.selector = selectors.DefaultSelector()
        self.free = [[Connection(gateway.port, number + 1) for number in range(CONNECTIONS)] for gateway in gateways]
        self.all = [connection for connections in self.free for connection in connections]
        for number, connections in enumerate(self.free):
            for connection in connections:
                self.selector.register(connection.socket, selectors.EVENT_READ, (number, connection))
        self.busy = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.selector.close()
        for connection in self.all:
            connection.socket.close()

    def run(self, jobs):
        """Sends all jobs. Returns their number."""
        count = 0
        for number, request, done in jobs:
            while not self.free[number]:
                self.wait()
            # The one that was idle for the longest time: the gateway closes those that are idle for a minute.
            self.free[number].pop(0).send(request, done)
            self.busy += 1
            count += 1
        while self.busy:
            self.wait()
        return count

    def wait(self, seconds=60):
        """Waits for responses, at most so long."""
        events = self.selector.select(seconds)
        if not events and seconds >= 60:
            raise Failure("the gateway does not respond within 60 s")
        for key, _ in events:
            number, connection = key.data
            head = connection.receive()
            if head is None:
                continue
            if head[9:12] not in self.statuses:
                raise Failure(f"a response of the gateway: {head[:12]!r} {connection.body[:200]!r}")
            self.busy -= 1
            self.free[number].append(connection)
            if connection.done:
                connection.done(head)

    def pause(self, until):
        """Receives responses until a time of `time.monotonic()`."""
        while (rest := until - time.monotonic()) > 0:
            self.wait(min(rest, 1))
