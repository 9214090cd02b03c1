"""An open loop of GET requests: each is due at its time, whatever happened to those before it.

usage: python3 -m trials.generator PORT[,PORT…] RATE SECONDS CONNECTIONS TIMEOUT PATH[,PATH…] FILE

Latency begins when a request is due. A request never waits for a connection: if none is idle, another one is opened.
With several ports, requests are distributed over them in turn. If an idle connection turns out to be closed, the
request is sent again on another one, as every client does. Prints the monotonic time of the first request, and finally
writes a JSON object of lists, one element per request: due (seconds after the first), latency (ms), status, origin
(X-Origin, or an empty string). Status 0: the connection ended without a response; -1: none within TIMEOUT seconds.
SIGTERM ends the load early.
"""

import asyncio
import collections
import gc
import json
import signal
import sys
import time

from harness.process import allow_many_files


class Client(asyncio.Protocol):
    def __init__(self, load, port):
        self.load, self.port = load, port
        self.transport = None
        self.number = None
        self.used = False
        self.buffer = b""

    def connection_made(self, transport):
        self.transport = transport

    def send(self, number):
        self.number, self.buffer = number, b""
        self.transport.write(self.load.requests[number % len(self.load.requests)])

    def data_received(self, data):
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0 or self.number is None:
            return
        head = self.buffer[:end].lower()
        position = head.find(b"\r\ncontent-length:")
        length = int(head[position + 17 :].split(b"\r\n", 1)[0]) if position >= 0 else 0
        if len(self.buffer) < end + 4 + length:
            return
        position = head.find(b"\r\nx-origin:")
        origin = head[position + 11 :].split(b"\r\n", 1)[0].strip().decode() if position >= 0 else ""
        self.load.complete(self.number, int(head[9:12]), origin)
        self.number, self.used = None, True
        if b"\r\nconnection: close" in head:
            self.transport.close()
        else:
            self.load.idle[self.port].append(self)

    def connection_lost(self, _):
        number, self.number = self.number, None
        if number is None:
            return
        if self.used and not self.buffer:
            self.load.reconnected += 1
            asyncio.ensure_future(self.load.open_and_send(number))
        else:
            self.load.complete(number, 0, "")


class Load:
    def __init__(self, ports, rate, seconds, connections, timeout, paths):
        self.ports, self.rate, self.connections, self.timeout = ports, rate, connections, timeout
        self.count = int(rate * seconds)
        self.requests = [f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() for path in paths]
        self.idle = {port: collections.deque() for port in ports}
        self.waiting = {}
        self.latency = [0.0] * self.count
        self.status = [-1] * self.count
        self.origin = [""] * self.count
        self.reconnected = 0

    def due(self, number):
        return self.start + number / self.rate

    def complete(self, number, status, origin):
        client = self.waiting.pop(number, None)
        if client is None:
            return
        self.latency[number] = round((time.monotonic() - self.due(number)) * 1e3, 3)
        self.status[number], self.origin[number] = status, origin

    async def open(self, port):
        _, client = await asyncio.get_running_loop().create_connection(lambda: Client(self, port), "127.0.0.1", port)
        return client

    async def open_and_send(self, number):
        try:
            client = await self.open(self.ports[number % len(self.ports)])
        except OSError:
            self.complete(number, 0, "")
            return
        if number in self.waiting:
            self.waiting[number] = client
            client.send(number)

    def send(self, number):
        idle = self.idle[self.ports[number % len(self.ports)]]
        while idle:
            # The one that has been idle longest, so that all connections, and all event loops behind them, are used.
            client = idle.popleft()
            if not client.transport.is_closing():
                self.waiting[number] = client
                client.send(number)
                return
        self.waiting[number] = None
        asyncio.ensure_future(self.open_and_send(number))

    def expire(self):
        """Ends requests that have waited too long, oldest first."""
        limit = time.monotonic() - self.timeout
        for number in [number for number in self.waiting if self.due(number) < limit]:
            client = self.waiting[number]
            self.complete(number, -1, "")
            if client:
                client.number = None
                client.transport.abort()

    def end_early(self):
        """Sends no more requests than are due by now."""
        self.count = min(self.count, max(0, int((time.monotonic() - self.start) * self.rate)))

    async def run(self):
        for port in self.ports:
            for _ in range(self.connections // len(self.ports)):
                self.idle[port].append(await self.open(port))
        gc.disable()
        self.start = time.monotonic() + 0.05
        print(repr(self.start), flush=True)
        sent, checked = 0, self.start
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.end_early)
        while sent < self.count or self.waiting:
            now = time.monotonic()
            while sent < self.count and self.due(sent) <= now:
                self.send(sent)
                sent += 1
            if now - checked > 0.25:
                self.expire()
                checked = now
            until = self.due(sent) if sent < self.count else now + 0.05
            await asyncio.sleep(max(0, min(until - time.monotonic(), 0.25)))


def main():
    ports, rate, seconds, connections, timeout, paths, file = sys.argv[1:]
    allow_many_files()
    load = Load(
        [int(port) for port in ports.split(",")],
        float(rate),
        float(seconds),
        int(connections),
        float(timeout),
        paths.split(","),
    )
    asyncio.run(load.run())
    due = [round(number / load.rate, 4) for number in range(load.count)]
    lists = {"latency": load.latency, "status": load.status, "origin": load.origin}
    result = {"due": due, **{name: values[: load.count] for name, values in lists.items()}}
    with open(file, "w") as output:
        json.dump({**result, "reconnected": load.reconnected}, output)


if __name__ == "__main__":
    main()
