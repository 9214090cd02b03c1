"""The upstream of the strategies. One process of asyncio; the path, without /open, selects what it does.

usage: python3 -m strategies.origin PORT

/large        4 MiB                          /hang        no response
/interim      103 without end                /stall       reads no further
/split        a head of one-byte writes      /head        a head that does not end
/chunks       one-byte chunks without end    /extensions  chunk extensions without end
/trailers     trailers without end           /trickle     a byte each 20 ms
/limit        a head of 15 KB                /oversized   a head of 200 KB
/cut          a body that ends too early     /reject      401
With Upgrade the response is 101; what follows is dropped, and of /flood data without end is sent. Any other request gets
{"path"}, once its Content-Length has arrived; a chunked body gets no response.
"""

import asyncio
import base64
import hashlib
import itertools
import json
import re
import sys

PIECE = b"x" * 16_384
LARGE = 4 * 2**20
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
KEY = re.compile(rb"\r\nsec-websocket-key: *(\S+)", re.IGNORECASE)
# The beginning of a response, and what follows without end.
ENDLESS = {
    "/interim": (b"", b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n" * 64),
    "/head": (OK, b"x-field: 1\r\n" * 64),
    "/chunks": (CHUNKED, b"1\r\nx\r\n" * 1_024),
    "/extensions": (CHUNKED, b"1;name=" + b"x" * 64 + b"\r\nx\r\n"),
    "/trailers": (CHUNKED + b"1\r\nx\r\n0\r\n", b"x-field: 1\r\n" * 64),
}
WHOLE = {
    "/limit": OK + b"".join(b"x-%d: %s\r\n" % (number, b"v" * 150) for number in range(90)) + b"Content-Length: 0\r\n\r\n",
    "/oversized": OK + b"x-field: %s\r\n" % (b"v" * 200_000) + b"Content-Length: 0\r\n\r\n",
    "/reject": b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
}


# The event loop does not reference a connection that is not read; without a reference it would be closed.
paused = []


class Connection(asyncio.Protocol):
    def __init__(self):
        self.buffer, self.discards, self.task, self.may_write = b"", False, None, asyncio.Event()

    def connection_made(self, transport):
        self.transport = transport
        self.may_write.set()

    def connection_lost(self, _error):
        if self.task:
            self.task.cancel()

    def pause_writing(self):
        self.may_write.clear()

    def resume_writing(self):
        self.may_write.set()

    def data_received(self, data):
        self.buffer = b"" if self.discards else self.buffer + data
        while (end := self.buffer.find(b"\r\n\r\n") + 4) > 3:
            head = self.buffer[:end]
            length = int(found[1]) if (found := LENGTH.search(head)) else 0
            path = head.split(b" ", 2)[1].decode("latin-1").removeprefix("/open")
            if path != "/stall" and len(self.buffer) < end + length:
                return
            self.buffer = self.buffer[end + length :]
            self.respond(head, path)

    def respond(self, head, path):
        if b"\r\nupgrade:" in head.lower():
            self.upgrade(head, path)
        elif path == "/stall":
            self.transport.pause_reading()
            paused.append(self)
        elif b"\r\ntransfer-encoding:" in head.lower() or path == "/hang":
            self.discards, self.buffer = True, b""
        elif path in WHOLE:
            self.transport.write(WHOLE[path])
        elif path in ENDLESS:
            self.send(*ENDLESS[path])
        elif path == "/large":
            self.send(OK + b"Content-Length: %d\r\n\r\n" % LARGE, PIECE, LARGE // len(PIECE))
        elif path == "/trickle":
            self.send(OK + b"Content-Length: 10000\r\n\r\n", b"x", 10_000, 0.02)
        elif path == "/split":
            text = OK + b"Content-Length: 0\r\n\r\n"
            self.task = asyncio.ensure_future(self.write(text[at : at + 1] for at in range(len(text))))
        elif path == "/cut":
            self.transport.write(OK + b"Content-Length: 1000\r\n\r\nx")
            self.transport.close()
        else:
            body = json.dumps({"path": path}).encode()
            self.transport.write(OK + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    def upgrade(self, head, path):
        self.discards, self.buffer = True, b""
        accept = base64.b64encode(hashlib.sha1(KEY.search(head)[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        start = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        frames = 10**9 if path == "/flood" else 0
        self.send(start + b"Sec-WebSocket-Accept: %b\r\n\r\n" % accept, b"\x82\x7e\x40\x00" + PIECE, frames)

    def send(self, start, piece, count=10**9, pause=0):
        self.transport.write(start)
        self.task = asyncio.ensure_future(self.write(itertools.repeat(piece, count), pause))

    async def write(self, pieces, pause=0):
        for piece in pieces:
            await self.may_write.wait()
            self.transport.write(piece)
            await asyncio.sleep(pause)


async def main(port):
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port, backlog=4_096)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
