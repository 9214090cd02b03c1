"""Idle connections: each has sent one request and received the response."""

import contextlib
import socket
import time

from harness.command import Failure
from harness.http import unverified_context
from scenarios.idle import receive_response


class IdleConnections:
    """Connections that are open while a block runs."""

    def __init__(self, gateway, protocol, path, headers, count):
        port = protocol.port(gateway)
        fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.address = ("127.0.0.1", port)
        self.request = f"GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\n{fields}\r\n".encode()
        self.tls = unverified_context() if protocol.scheme == "https" else None
        self.count = count
        self.open = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            deadline = time.monotonic() + 240
            for _ in range(self.count):
                connection = socket.create_connection(self.address, timeout=10)
                # Otherwise each request waits 40 ms for the server's delayed acknowledgement of the handshake.
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self.tls:
                    connection = self.tls.wrap_socket(connection, server_hostname="localhost")
                stack.callback(connection.close)
                connection.sendall(self.request)
                receive_response(connection)
                if time.monotonic() > deadline:
                    raise Failure(f"{self.count} connections are not open after 240 s")
            self.open = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.open.close()
