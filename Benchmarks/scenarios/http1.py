"""An HTTP/1.1 client that distinguishes truncated responses from connections that were closed while idle."""

import socket

from harness.http import unverified_context


class Closed(Exception):
    """The connection ended before the first byte of a response."""


class Truncated(Exception):
    """The connection ended, or was reset, inside a response."""


class Malformed(Exception):
    """The response is not valid HTTP/1.1."""


class Client:
    """One connection with sequential requests."""

    def __init__(self, port, timeout=30, tls=False):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.socket = unverified_context().wrap_socket(self.socket, server_hostname="localhost")
        self.buffer = b""
        self.status, self.fields = 0, {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, method, target, body=None, length=None, fields=""):
        """Sends a request. The body is an iterable of bytes, chunked unless a length is given. `fields` are complete field
        lines with their line ends."""
        framing = ""
        if body is not None:
            framing = "Transfer-Encoding: chunked\r\n" if length is None else f"Content-Length: {length}\r\n"
        head = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\n{fields}{framing}\r\n".encode()
        try:
            self.socket.sendall(head)
            for piece in body or ():
                self.socket.sendall(piece if length is not None else b"%x\r\n%b\r\n" % (len(piece), piece))
            if body is not None and length is None:
                self.socket.sendall(b"0\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            # There may be a response nevertheless, which the next read returns.
            pass

    def receive(self):
        """Reads the head of the final response and returns its status."""
        while True:
            self.read_head()
            if self.status >= 200:
                return self.status

    def read_head(self):
        while b"\r\n\r\n" not in self.buffer:
            try:
                piece = self.socket.recv(65_536)
            except ConnectionError:
                piece = b""
            if not piece:
                raise Truncated("in the head") if self.buffer else Closed
            self.buffer += piece
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        start, *lines = head.decode("latin-1").split("\r\n")
        if not start.startswith("HTTP/1.1 ") or not start[9:12].isdigit():
            raise Malformed(start[:100])
        self.status = int(start[9:12])
        self.fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def pieces(self):
        """The body of the response, unless the request was HEAD."""
        if self.status in (204, 304):
            return
        if "transfer-encoding" in self.fields:
            yield from self.chunks()
        elif "content-length" in self.fields:
            yield from self.exactly(int(self.fields["content-length"]))
        else:
            raise Malformed("a response without a length")

    def chunks(self):
        while size := int(self.line().partition(b";")[0], 16):
            yield from self.exactly(size)
            if self.line():
                raise Malformed("a chunk longer than its size")
        while self.line():
            pass

    def line(self):
        while b"\r\n" not in self.buffer:
            self.buffer += self.read(65_536)
        line, _, self.buffer = self.buffer.partition(b"\r\n")
        return line

    def exactly(self, count):
        if self.buffer and count:
            taken, self.buffer = self.buffer[:count], self.buffer[count:]
            count -= len(taken)
            yield taken
        while count:
            piece = self.read(min(count, 262_144))
            count -= len(piece)
            yield piece

    def read(self, size):
        try:
            piece = self.socket.recv(size)
        except ConnectionError:
            piece = b""
        if not piece:
            raise Truncated("in the body")
        return piece

    def body(self):
        return b"".join(self.pieces())

    def get(self, target, fields=""):
        self.send("GET", target, fields=fields)
        self.receive()
        return self.body()

    @property
    def persists(self):
        return self.fields.get("connection", "").lower() != "close"
