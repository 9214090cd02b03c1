"""An upstream for large bodies: `GET /videos/COUNT` returns COUNT bytes, a POST is read to its end before the response.

It is cheaper than a file server, so that it limits the measurement as little as possible. It keeps nginx's part at
sign-in: `/auth` issues the tokens given on the command line. Every other request needs the injected fields.

usage: python3 -m comparison.bulk_upstream PORT ACCESS_TOKEN REFRESH_TOKEN API_TOKEN
"""

import json
import socket
import sys
import threading

CHUNK = bytes(1 << 20)


class Connection(threading.Thread):
    def __init__(self, connection, tokens):
        super().__init__(daemon=True)
        self.connection, self.tokens = connection, tokens
        self.received = bytearray()
        self.buffer = memoryview(bytearray(1 << 20))

    def run(self):
        with self.connection:
            try:
                while self.serve():
                    pass
            except OSError:
                pass

    def serve(self):
        """Serves one request. Returns whether there may be another one."""
        while (end := self.received.find(b"\r\n\r\n")) < 0:
            count = self.connection.recv_into(self.buffer)
            if not count:
                return False
            self.received += self.buffer[:count]
        start, *lines = self.received[:end].decode("latin-1").split("\r\n")
        del self.received[: end + 4]
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        method, path, _ = start.split(" ")
        if not self.read_body(fields):
            return False
        access, refresh, api = self.tokens
        if path.startswith("/auth"):
            self.respond(json.dumps({"accessToken": access, "refreshToken": refresh}).encode())
        elif path == "/user":
            self.respond(b'{"id":"1","email":"jo@example.com","name":"Jo"}')
        elif fields.get("authorization") != f"Bearer {access}" or fields.get("x-api-token") != api:
            self.respond(b"{}", status="403 Forbidden")
        elif method == "POST":
            self.respond(b"{}")
        else:
            self.respond_with(int(path.rpartition("/")[2]))
        return True

    def read_body(self, fields):
        """Reads a body of known length; the load generator sends no other ones."""
        if "transfer-encoding" in fields:
            self.respond(b"{}", status="411 Length Required")
            return False
        length = int(fields.get("content-length", 0))
        left = max(length - len(self.received), 0)
        del self.received[:length]
        while left > 0:
            count = self.connection.recv_into(self.buffer, min(left, len(self.buffer)))
            if not count:
                return False
            left -= count
        return True

    def head(self, count, status="200 OK"):
        return f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {count}\r\n\r\n".encode()

    def respond(self, body, status="200 OK"):
        self.connection.sendall(self.head(len(body), status) + body)

    def respond_with(self, count):
        self.connection.sendall(self.head(count))
        while count > 0:
            part = min(count, len(CHUNK))
            self.connection.sendall(memoryview(CHUNK)[:part])
            count -= part


def main():
    port, *tokens = sys.argv[1:]
    with socket.create_server(("127.0.0.1", int(port)), backlog=1_024) as listener:
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            Connection(connection, tokens).start()


if __name__ == "__main__":
    main()
