"""A strategy, and the connections that carry it out: non-blocking sockets in one thread."""

import collections
import contextlib
import ctypes
import dataclasses
import functools
import re
import socket
import ssl
import struct
import time
import typing

from harness.http import unverified_context

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: close with RST."""
CONNECTION_BYTES = 100
"""What an opened connection counts as, besides what is sent on it: the headers of its packets."""
ADDRESSES = 100
OPENSSL = ctypes.CDLL(ssl._ssl.__file__)
PIECE = 65_536
FRAMES = ("DATA", "HEADERS", "PRIORITY", "RST", "SETTINGS", "PUSH", "PING", "GOAWAY", "WINDOW", "CONTINUATION")
STALL_SECONDS = 0.5
"""Without a byte sent for this long, no more will be."""
STATUS = re.compile(rb"HTTP/1\.1 (\d{3})")


@dataclasses.dataclass(frozen=True)
class Strategy:
    """What a client does. `script` returns the writes of one connection, from its number; a write is bytes or a function
    of the connection. `raw` sends bytes to the TLS port without TLS."""

    name: str
    script: typing.Callable
    protocol: str = "h1"
    connections: int = 1
    kilobytes: int = 500
    """The clients stop sending after this."""
    reads: int | None = None
    """The most bytes that a client reads per 10 ms; None: all."""
    end: str = "hold"
    """After the last write: hold, close or reset."""
    returns: bool = True
    """Whether a connection that has ended is replaced."""
    version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    resumes: bool = False
    changes: dict = dataclasses.field(default_factory=dict)
    """Keys of the gateway's configuration."""
    fixed: tuple | None = None
    """Bytes held per byte sent, and milliseconds of CPU per MB, where HAProxy has no such function."""


class Connection:
    """One connection and the writes that remain."""

    session = None

    def __init__(self, strategy, ports, number):
        self.strategy = strategy
        is_clear = strategy.protocol in ("h1", "h2c")
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if strategy.reads is not None:
            # What is not read must not fit into this socket.
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        # Many addresses, because the gateway has limits per address, and other clients have other addresses.
        self.socket.bind((f"127.0.1.{1 + number % ADDRESSES}", 0))
        self.socket.connect_ex(("127.0.0.1", ports[0] if is_clear else ports[1]))
        self.writes = iter(strategy.script(number))
        self.pending = self.first = b""
        self.sent = 0
        self.has_ended = self.is_finished = False
        self.is_ready, self.tls = is_clear or strategy.protocol == "raw", None
        if not self.is_ready:
            self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            options = {"server_hostname": "localhost", "session": Connection.session if strategy.resumes else None}
            self.tls = client_context(strategy.protocol, strategy.version).wrap_bio(self.incoming, self.outgoing, **options)

    def step(self, may_send, may_read):
        """Sends the next write, then reads. Returns whether a byte was sent or read."""
        moved = False
        try:
            if not self.is_ready:
                self.handshake()
            if self.is_ready and not self.pending and may_send and not self.is_finished:
                self.take_write()
            if self.pending:
                count = self.socket.send(self.pending[:PIECE])
                self.pending = self.pending[count:]
                self.sent += count
                moved = True
        except BlockingIOError:
            pass
        except (OSError, ssl.SSLError):
            self.has_ended = True
            return moved
        if self.is_finished and not self.pending and self.strategy.end != "hold":
            self.close(self.strategy.end == "reset")
            return True
        if may_read and (self.strategy.reads != 0 or not self.is_ready):
            moved = self.read() or moved
        return moved

    def handshake(self):
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
            self.is_ready = True
            if self.strategy.resumes:
                Connection.session = self.tls.session
        self.pending += self.outgoing.read()

    def take_write(self):
        write = next(self.writes, None)
        if write is None:
            self.is_finished = True
            return
        piece = write(self) if callable(write) else write
        if self.tls and piece:
            for at in range(0, len(piece), 16_384):
                self.tls.write(piece[at : at + 16_384])
        self.pending += self.outgoing.read() if self.tls else piece

    def read(self):
        try:
            piece = self.socket.recv(self.strategy.reads or PIECE)
        except BlockingIOError:
            return False
        except OSError:
            piece = b""
        self.has_ended = not piece
        if self.tls:
            self.incoming.write(piece)
            piece = self.decrypt() if self.is_ready else b""
        self.first += piece[: PIECE - len(self.first)]
        return True

    def decrypt(self):
        text = b""
        with contextlib.suppress(ssl.SSLError):
            while part := self.tls.read(PIECE):
                text += part
        self.pending += self.outgoing.read()
        return text

    def call_openssl(self, name, *arguments):
        """Calls a function of OpenSSL for which Python has none, and returns the bytes to send."""
        # The second word after the header of the object: SSL *.
        pointer = ctypes.c_void_p.from_address(id(self.tls._sslobj) + object.__basicsize__ + ctypes.sizeof(ctypes.c_void_p))
        getattr(OPENSSL, name)(pointer, *arguments)
        return b""

    def close(self, with_reset=False):
        self.has_ended = True
        with contextlib.suppress(OSError):
            if with_reset:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self.socket.close()


@functools.cache
def client_context(protocol, version):
    context = unverified_context()
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2"] if protocol == "h2" else ["http/1.1"])
    return context


class Attack:
    """All connections of a strategy for a bounded time and number of bytes. `sample` is called every 20 ms.

    While bytes remain and are sent, the attack takes longer than its seconds: on a busy machine it would be another one."""

    def __init__(self, strategy, ports, seconds, most_seconds, factor, sample):
        self.strategy, self.ports, self.sample = strategy, ports, sample
        self.seconds, self.most_seconds, self.limit = seconds, most_seconds, strategy.kilobytes * 1_000 * factor
        self.opened = self.sent_before = 0
        self.results = collections.Counter()
        self.connections = []

    def open(self):
        self.opened += 1
        return Connection(self.strategy, self.ports, self.opened)

    @property
    def bytes(self):
        sent = self.sent_before + sum(connection.sent for connection in self.connections)
        return sent + self.opened * CONNECTION_BYTES

    def run(self):
        start = time.monotonic()
        next_sample, next_read, progress, count = start, start, start, 0
        self.connections = [self.open() for _ in range(self.strategy.connections)]
        while (now := time.monotonic()) < start + self.most_seconds:
            if (sent := self.bytes) > count:
                progress, count = now, sent
            may_read, may_send, moved = now >= next_read, sent < self.limit, False
            if now >= start + self.seconds and (not may_send or now > progress + STALL_SECONDS):
                break
            if may_read:
                next_read = now + (0.002 if self.strategy.reads is None else 0.01)
            for index, connection in enumerate(self.connections):
                if not connection.has_ended:
                    moved = connection.step(may_send, may_read) or moved
                elif may_send and self.strategy.returns:
                    self.replace(index, connection)
            if now >= next_sample:
                self.sample()
                next_sample = now + 0.02
            if not moved:
                time.sleep(0.002)
        self.sample()

    def replace(self, index, connection):
        self.sent_before += connection.sent
        self.record(connection)
        connection.close()
        self.connections[index] = self.open()

    def record(self, connection):
        """Counts the statuses of responses, and of HTTP/2 the types of the frames."""
        self.results.update(status.decode() for status in STATUS.findall(connection.first))
        if connection.strategy.protocol in ("h2", "h2c"):
            at = 0
            while at + 9 <= len(connection.first):
                kind = connection.first[at + 3]
                self.results[FRAMES[kind] if kind < len(FRAMES) else "other"] += 1
                at += 9 + int.from_bytes(connection.first[at : at + 3], "big")

    def close(self):
        for connection in self.connections:
            self.record(connection)
            connection.close()
