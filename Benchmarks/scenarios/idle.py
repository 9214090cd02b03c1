"""Clients of the memory measurement: connections that are held open idle, and connections of one request each."""

import contextlib
import socket
import ssl
import struct

from harness.command import Failure
from harness.http import unverified_context
from scenarios import http2

KINDS = ("clear", "tls", "h2")
VERSIONS = {
    "1.3": ssl.TLSVersion.TLSv1_3,
    "1.2": ssl.TLSVersion.TLSv1_2,
    # Without tickets the server has to store the session itself, if it offers resumption at all.
    "1.2 without tickets": ssl.TLSVersion.TLSv1_2,
}
# How the client ends a connection; in the last one the gateway ends it, and the client ignores its close_notify.
ENDINGS = ("close_notify", "FIN", "RST", "Connection: close")
ADDRESSES = 100
SECONDS = 10
REQUEST = b"GET /idle HTTP/1.1\r\nHost: localhost\r\n\r\n"
# What a connection was used for before it is idle: the paths of its requests.
USES = {
    "nothing": [],
    "one request": ["/idle"],
    "100 KiB": ["/bytes/102400"],
    "100 KiB, then small": ["/bytes/102400", "/idle"],
}
LAST_REQUEST = REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


def connect(port, number=0):
    """Connects from one of many addresses, so that ports do not run out."""
    connection = socket.socket()
    # IP_BIND_ADDRESS_NO_PORT: the port is chosen at connect, so that ports may be equal for different addresses.
    connection.setsockopt(socket.IPPROTO_IP, 24, 1)
    connection.bind((f"127.0.1.{1 + number % ADDRESSES}", 0))
    connection.settimeout(SECONDS)
    connection.connect(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def receive_response(connection):
    """Reads a response with a length."""
    response = b""
    while b"\r\n\r\n" not in response:
        piece = connection.recv(65_536)
        if not piece:
            raise Failure(f"the connection ended within a response: {response[:100]!r}")
        response += piece
    head, _, body = response.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 "):
        raise Failure(f"unexpected response: {head[:100]!r}")
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    left = int(lengths[0]) - len(body)
    while left > 0:
        left -= len(connection.recv(65_536))


class IdleConnections:
    """Connections of one kind to one port."""

    def __init__(self, port, kind):
        self.port, self.kind = port, kind
        self.context = unverified_context()
        self.context.minimum_version = ssl.TLSVersion.TLSv1_3
        self.context.set_alpn_protocols(["h2"] if kind == "h2" else ["http/1.1"])
        self.connections = []

    @property
    def count(self):
        return len(self.connections)

    def open(self, count, paths):
        """Opens connections, each with a complete handshake and requests for these paths, one after the other."""
        for number in range(count):
            connection = connect(self.port, number)
            if self.kind != "clear":
                connection = self.context.wrap_socket(connection)
            if self.kind == "h2":
                self.start_http2(connection, paths)
            else:
                for path in paths:
                    connection.sendall(REQUEST.replace(b"/idle", path.encode()))
                    receive_response(connection)
            self.connections.append(connection)

    @staticmethod
    def start_http2(connection, paths):
        """Sends the preface and waits until both sides have acknowledged their settings and the responses are there."""
        own = http2.PREFACE + http2.frame(http2.SETTINGS, 0, 0, http2.setting(http2.INITIAL_WINDOW, 1 << 20))
        own += http2.frame(http2.WINDOW, 0, 0, (1 << 20).to_bytes(4, "big"))
        requests = []
        for number, path in enumerate(paths):
            pairs = [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", path)]
            flags = http2.END_HEADERS | http2.END_STREAM
            requests.append(http2.frame(http2.HEADERS, flags, 2 * number + 1, http2.fields(pairs)))
        connection.sendall(own + b"".join(requests[:1]))
        unread, has_settings, has_acknowledgement, responses = b"", False, False, 0
        while not (has_settings and has_acknowledgement and responses == len(paths)):
            piece = connection.recv(65_536)
            if not piece:
                raise Failure("the HTTP/2 connection ended")
            unread += piece
            while len(unread) >= 9 and len(unread) >= 9 + int.from_bytes(unread[:3], "big"):
                length, kind, flags = int.from_bytes(unread[:3], "big"), unread[3], unread[4]
                unread = unread[9 + length :]
                if kind == http2.SETTINGS and flags & http2.ACK:
                    has_acknowledgement = True
                elif kind == http2.SETTINGS:
                    connection.sendall(http2.frame(http2.SETTINGS, http2.ACK, 0))
                    has_settings = True
                elif kind in (http2.DATA, http2.HEADERS) and flags & http2.END_STREAM:
                    responses += 1
                    connection.sendall(b"".join(requests[responses : responses + 1]))

    def close_all(self):
        for connection in self.connections:
            # A reset, so that no port waits.
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        self.connections = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close_all()


_contexts = {}


def context_for(version):
    """A context for one of VERSIONS that never resumes a session."""
    if version not in _contexts:
        context = unverified_context()
        context.minimum_version = context.maximum_version = VERSIONS[version]
        context.set_alpn_protocols(["http/1.1"])
        if version.endswith("without tickets"):
            context.options |= ssl.OP_NO_TICKET
        _contexts[version] = context
    return _contexts[version]


def connect_and_close(port, version):
    """One connection with a full handshake and one request, closed in order."""
    with contextlib.closing(context_for(version).wrap_socket(connect(port))) as connection:
        connection.sendall(REQUEST)
        receive_response(connection)
        # Sends close_notify; the gateway's own may be lost.
        with contextlib.suppress(OSError):
            connection.unwrap()


def connect_and_end(port, ending):
    """One TLS connection with one request, which ends in one of ENDINGS."""
    with contextlib.closing(context_for("1.3").wrap_socket(connect(port))) as connection:
        connection.sendall(LAST_REQUEST if ending == "Connection: close" else REQUEST)
        receive_response(connection)
        if ending == "close_notify":
            with contextlib.suppress(OSError):
                connection.unwrap()
        elif ending == "RST":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
