"""An origin whose behaviour changes while it runs: asyncio, one process, no dependencies.

usage: python3 -m trials.origin NAME PORT PANEL [ADDRESS]

GET  /work…     650 bytes after the delay of the panel, with the status of the panel
GET  /health    the same, counted as a check
GET  /broken    the status `broken_status` of the panel
GET  /bytes/N   N bytes
GET  /hang      no response at all
POST anything   reads the body, then responds as /work

The field X-Origin has the origin's name.
"""

import asyncio
import gc
import signal
import sys
import time

from trials.panel import Panel

BODY = b"x" * 650
PIECE = bytes(65_536)


class Connection(asyncio.Protocol):
    def __init__(self, origin):
        self.origin, self.panel = origin, origin.panel
        origin.all.add(self)
        self.buffer = bytearray()
        self.transport = None
        self.is_busy = self.is_chunked = self.is_paused = False
        self.body_left = -1
        self.bytes_left = 0

    def connection_made(self, transport):
        self.transport = transport
        self.panel.connections += 1
        self.panel.open += 1

    def eof_received(self):
        # A peer that ends its side has left: nothing in these trials half-closes.
        return False

    def connection_lost(self, _):
        self.origin.all.discard(self)
        self.panel.open -= 1
        if self.is_busy:
            self.panel.aborted += 1
            self.panel.last_abort = time.monotonic_ns()

    def data_received(self, data):
        self.buffer += data
        if not self.is_busy:
            self.read_head()
        elif self.body_left:
            self.read_body()

    def read_head(self):
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self.buffer[:end]).lower()
        del self.buffer[: end + 4]
        self.method, self.path, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
        self.is_busy = True
        self.is_chunked = b"\r\ntransfer-encoding:" in head
        position = head.find(b"\r\ncontent-length:")
        self.body_left = int(head[position + 17 :].split(b"\r\n", 1)[0]) if position >= 0 else 0
        if self.path == "/health":
            self.panel.checks += 1
            self.panel.last_check = time.monotonic_ns()
        else:
            self.panel.requests += 1
            self.panel.last_request = time.monotonic_ns()
        if self.is_chunked:
            self.body_left = -1
        self.read_body()

    def read_body(self):
        if self.is_chunked:
            # Bodies of trials contain no such bytes, so the end of the body is found without a parser.
            if not self.buffer.endswith(b"0\r\n\r\n"):
                return
            self.buffer.clear()
            self.body_left = 0
        else:
            taken = min(self.body_left, len(self.buffer))
            del self.buffer[:taken]
            self.body_left -= taken
        if self.body_left == 0:
            self.schedule()

    def schedule(self):
        if self.path == "/hang":
            return
        delay = self.panel.delay
        if delay:
            asyncio.get_running_loop().call_later(delay / 1e6, self.respond)
        else:
            self.respond()

    def respond(self):
        if self.transport.is_closing():
            return
        status = self.panel.status or 200
        if self.path == "/health":
            status = self.panel.health_status or status
        elif self.path.startswith("/broken"):
            status = self.panel.broken_status or 200
        count = int(self.path[7:]) if self.path.startswith("/bytes/") else len(BODY)
        head = b"HTTP/1.1 %d X\r\nX-Origin: %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        head %= (status, self.origin.name, count)
        if count == len(BODY):
            self.transport.write(head + BODY)
            self.finish()
        else:
            self.transport.write(head)
            self.bytes_left = count
            self.send_pieces()

    def send_pieces(self):
        while self.bytes_left and not self.is_paused:
            piece = PIECE[: min(len(PIECE), self.bytes_left)]
            self.bytes_left -= len(piece)
            self.transport.write(piece)
        if not self.bytes_left:
            self.finish()

    def pause_writing(self):
        self.is_paused = True

    def resume_writing(self):
        self.is_paused = False
        if self.bytes_left:
            self.send_pieces()

    def finish(self):
        self.is_busy = False
        if self.origin.is_stopping:
            self.transport.close()
        elif self.buffer:
            self.read_head()


class Origin:
    def __init__(self, name, panel):
        self.name, self.panel = name.encode(), panel
        self.all = set()
        self.is_stopping = False

    def stop(self, server):
        """SIGQUIT, as nginx understands it: no more connections, no idle ones, and the end when all are closed."""
        self.is_stopping = True
        server.close()
        for connection in list(self.all):
            if not connection.is_busy:
                connection.transport.close()
        asyncio.get_running_loop().create_task(self.end())

    async def end(self):
        while self.all:
            await asyncio.sleep(0.005)
        asyncio.get_running_loop().stop()


async def serve(name, port, panel, address):
    # Connections of a process that was killed are not open any more.
    panel.open = 0
    origin = Origin(name, panel)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(origin), address, port, backlog=4096)
    # No pauses for a collection: connections are the only cycles, and the process is short-lived.
    gc.disable()
    loop.add_signal_handler(signal.SIGQUIT, origin.stop, server)


if __name__ == "__main__":
    name, port, panel, *address = sys.argv[1:]
    loop = asyncio.new_event_loop()
    loop.run_until_complete(serve(name, int(port), Panel(panel), address[0] if address else "127.0.0.1"))
    loop.run_forever()
