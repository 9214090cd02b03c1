"""The upstream of the scenarios: streams deterministic bytes and hashes request bodies. One thread per connection.

usage: python3 -m scenarios.origin PORT

GET  /bytes/COUNT?seed=&rate=&chunked=1   COUNT bytes, at `rate` bytes per second if given
POST /sink?id=&rate=                      reads the body and responds with its {"bytes", "sha256"}
GET  /report?id=                          the same for the part received so far, and whether it is complete
GET  /seen                                the targets of all other requests, once per request
     anything?status=N                    responds with {"path"} and that status
     anything else                        reads the body and responds with {"path"}

Responses have the request's target in X-Seen, so that a response to another request is detected.
"""

import hashlib
import json
import socket
import struct
import sys
import threading
import time
import urllib.parse

from scenarios import content

SLOW_PIECE = 16_384


class State:
    """State that the threads share."""

    def __init__(self):
        self.seen = []
        self.sinks = {}


class Sink:
    """A request body, and its hash."""

    def __init__(self):
        self.sha = hashlib.sha256()
        self.count = 0
        self.is_complete = False

    def take(self, piece):
        self.sha.update(piece)
        self.count += len(piece)

    def report(self):
        return {"bytes": self.count, "sha256": self.sha.copy().hexdigest(), "complete": self.is_complete}


class Pace:
    """Limits a stream to a rate in bytes per second; 0 is unlimited."""

    def __init__(self, rate):
        self.rate, self.count, self.start = rate, 0, time.monotonic()

    def passed(self, count):
        if self.rate:
            self.count += count
            time.sleep(max(0, self.start + self.count / self.rate - time.monotonic()))


class Cut(Exception):
    """The peer closed the connection, or sent invalid HTTP."""


class Connection:
    def __init__(self, connection, state):
        self.socket, self.state, self.buffer = connection, state, bytearray()

    def serve(self):
        try:
            with self.socket:
                self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while self.exchange():
                    pass
        except (OSError, Cut):
            pass

    def more(self, size=65_536):
        piece = self.socket.recv(size)
        if not piece:
            raise Cut
        self.buffer += piece

    def line(self):
        while (end := self.buffer.find(b"\r\n")) < 0:
            self.more()
        line = bytes(self.buffer[:end])
        del self.buffer[: end + 2]
        return line

    def exchange(self):
        while b"\r\n\r\n" not in self.buffer:
            self.more()
        head, _, rest = bytes(self.buffer).partition(b"\r\n\r\n")
        self.buffer = bytearray(rest)
        start, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = start.split(" ")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        path, _, query = target.partition("?")
        options = dict(urllib.parse.parse_qsl(query))
        if path.startswith("/bytes/"):
            self.send_bytes(target, int(path[7:]), options)
        elif "status" in options:
            self.respond(target, {"path": path}, status=int(options["status"]))
        elif path == "/seen":
            self.respond(target, list(self.state.seen))
        elif path == "/report":
            sink = self.state.sinks.get(options["id"])
            self.respond(target, sink.report() if sink else {"bytes": 0, "complete": False})
        elif path == "/sink":
            sink = self.state.sinks[options.get("id", target)] = Sink()
            self.read_body(fields, sink, Pace(int(options.get("rate", 0))))
            self.respond(target, sink.report())
            if "id" not in options:
                del self.state.sinks[target]
        else:
            self.state.seen.append(target)
            self.read_body(fields, Sink(), Pace(0))
            self.respond(target, {"path": path}, has_body=method != "HEAD")
        return fields.get("connection", "").lower() != "close"

    def respond(self, target, document, has_body=True, status=200):
        has_body = has_body and status not in (204, 304)
        body = json.dumps(document).encode() if has_body or status == 200 else b""
        head = f"HTTP/1.1 {status} OK\r\nX-Seen: {target}\r\nContent-Type: application/json\r\n"
        head += "\r\n" if status in (204, 304) else f"Content-Length: {len(body)}\r\n\r\n"
        self.socket.sendall(head.encode() + (body if has_body else b""))

    def send_bytes(self, target, count, options):
        is_chunked = "chunked" in options
        framing = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {count}"
        self.socket.sendall(f"HTTP/1.1 200 OK\r\nX-Seen: {target}\r\n{framing}\r\n\r\n".encode())
        rate = int(options.get("rate", 0))
        pace = Pace(rate)
        for piece in content.pieces(int(options.get("seed", 0)), count, SLOW_PIECE if rate else content.PIECE):
            if is_chunked:
                self.socket.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
            else:
                self.socket.sendall(piece)
            pace.passed(len(piece))
        if is_chunked:
            self.socket.sendall(b"0\r\n\r\n")

    def read_body(self, fields, sink, pace):
        if "chunked" in fields.get("transfer-encoding", "").lower():
            while size := int(self.line().partition(b";")[0], 16):
                self.read_exactly(size, sink, pace)
                if self.line():
                    raise Cut
            while self.line():
                pass
        else:
            self.read_exactly(int(fields.get("content-length", 0)), sink, pace)
        sink.is_complete = True

    def read_exactly(self, count, sink, pace):
        if taken := bytes(self.buffer[:count]):
            del self.buffer[: len(taken)]
            sink.take(taken)
            count -= len(taken)
            pace.passed(len(taken))
        if not count:
            return
        space = memoryview(bytearray(min(count, SLOW_PIECE if pace.rate else content.PIECE)))
        while count:
            read = self.socket.recv_into(space, min(count, len(space)))
            if not read:
                raise Cut
            sink.take(space[:read])
            count -= read
            pace.passed(read)


def serve(port):
    state = State()
    # Threads need few frames; the default stack of 8 MiB would reserve much address space for thousands of threads.
    threading.stack_size(512 * 1024)

    with socket.create_server(("127.0.0.1", port), backlog=4096) as listener:
        while True:
            connection, _ = listener.accept()
            # Longer than any scenario.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 600, 0))
            threading.Thread(target=Connection(connection, state).serve, daemon=True).start()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
