"""A TCP proxy between gateway and upstream that applies a fault to each response, chosen by a seed.

usage: python3 -m scenarios.faultproxy PORT TARGET_PORT SEED

It never alters bytes inside a body with a Content-Length, because the gateway could not detect that. Garbage replaces a
response, follows one, or shifts a chunk. The gateway must be able to detect every fault.
"""

import asyncio
import random
import socket
import struct
import sys

# Weights of the faults of a new connection, and of each response.
ON_CONNECT = {"none": 18, "cut": 1, "reset": 1}
FAULTS = {
    "none": 40,
    "delay": 6,
    "slice": 6,
    "cut": 2,
    "reset": 2,
    "half_close_down": 1,
    "half_close_up": 1,
    "garbage_first": 1,
    "garbage_after": 1,
    "garbage_in_chunks": 1,
    "broken_head": 1,
    "stall": 1,
}
GARBAGE = [
    b"\x00\x01\x02\xff\xfe garbage",
    b"\r\n\r\n\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nevil",
    b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\nevil",
    b"HTTP/1.1 2000 OK\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent Length: 4\r\n\r\nevil",
    b"SSH-2.0-OpenSSH_9.2\r\n",
]
# In seconds.
LONGEST_DELAY = 0.3
# Longer than the gateway's timeouts for a head and for an idle body.
STALL = 30


class Connection:
    """Both directions of one connection, and their faults."""

    def __init__(self, random_source):
        self.random = random_source
        self.choose()

    def choose(self):
        """Chooses the fault of the next response, and after how many bytes it occurs: in the head, a small or a large body."""
        self.fault = self.random.choices(list(FAULTS), list(FAULTS.values()))[0]
        self.after = self.random.choice([0, 1, 15, 60, 200, 1_000, 20_000, 200_000])
        self.passed = 0
        self.has_occurred = False

    async def serve(self, reader, writer, port):
        on_connect = self.random.choices(list(ON_CONNECT), list(ON_CONNECT.values()))[0]
        if on_connect == "reset":
            return reset(writer)
        if on_connect == "cut":
            return writer.close()
        try:
            origin_reader, origin_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return reset(writer)
        for each in (writer, origin_writer):
            each.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pumps = [
            asyncio.create_task(self.up(reader, origin_writer)),
            asyncio.create_task(self.down(origin_reader, writer)),
        ]
        try:
            # The end of the responses ends the connection; the end of the requests does not, while responses follow.
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            if not pumps[1].done():
                await asyncio.wait(pumps, timeout=STALL)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            writer.close()
            origin_writer.close()

    async def up(self, reader, writer):
        while piece := await reader.read(65_536):
            if self.fault == "delay":
                await asyncio.sleep(self.random.uniform(0, LONGEST_DELAY))
            writer.write(piece)
            await writer.drain()
            if self.fault == "half_close_up":
                break
        if writer.can_write_eof():
            writer.write_eof()

    async def down(self, reader, writer):
        while piece := await reader.read(65_536):
            # No body here begins with these bytes.
            if piece.startswith(b"HTTP/1.1 "):
                self.choose()
            if self.fault == "delay":
                await asyncio.sleep(self.random.uniform(0, LONGEST_DELAY))
            if not await self.forward(piece, writer):
                return
            self.passed += len(piece)
        if writer.can_write_eof():
            writer.write_eof()

    async def forward(self, piece, writer):
        """Forwards a part of a response, or applies the fault. Returns whether to continue."""
        occurs = self.passed + len(piece) > self.after and not self.has_occurred
        before = piece[: max(0, self.after - self.passed)]
        if self.fault == "slice" and len(piece) < 5_000:
            for at in range(0, len(piece), 7):
                writer.write(piece[at : at + 7])
                await writer.drain()
                await asyncio.sleep(0)
            return True
        if not occurs or self.fault in ("none", "delay", "slice", "half_close_up"):
            writer.write(piece)
            await writer.drain()
            return True
        self.has_occurred = True
        return await self.apply_fault(piece, before, writer)

    async def apply_fault(self, piece, before, writer):
        if self.fault == "garbage_first":
            if self.passed:
                # Too late: a response has begun.
                writer.write(piece)
                return True
            writer.write(self.random.choice(GARBAGE))
            await writer.drain()
            return False
        if self.fault == "broken_head":
            if self.passed:
                writer.write(piece)
                return True
            # A byte that is invalid in a head.
            writer.write(piece[:20] + b"\x00" + piece[20:])
            await writer.drain()
            return False
        if self.fault == "garbage_after":
            writer.write(piece)
            await writer.drain()
            # After a response or instead of the next one: in both cases not a response.
            await asyncio.sleep(0.05)
            if is_complete_response(piece):
                writer.write(self.random.choice(GARBAGE))
            return True
        if self.fault == "garbage_in_chunks":
            # Only where it breaks the framing.
            if b"Transfer-Encoding: chunked" in piece:
                head, _, body = piece.partition(b"\r\n\r\n")
                at = self.random.randrange(len(body) + 1)
                writer.write(head + b"\r\n\r\n" + body[:at] + b"\xffgarbage" + body[at:])
            else:
                writer.write(piece)
            await writer.drain()
            return True
        writer.write(before)
        await writer.drain()
        if self.fault == "stall":
            await asyncio.sleep(STALL)
        elif self.fault == "reset":
            # Sent later, because a reset discards bytes that are in flight.
            await asyncio.sleep(0.01)
            reset(writer)
        elif self.fault == "half_close_down":
            writer.write_eof()
            await asyncio.sleep(1)
        return False


def is_complete_response(piece):
    """Whether the piece is a complete short response."""
    head, end, body = piece.partition(b"\r\n\r\n")
    length = head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0]
    return head.startswith(b"HTTP/1.1 200") and bool(end) and length.isdigit() and len(body) == int(length)


def reset(writer):
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def serve(port, target, seed):
    source = random.Random(seed)

    async def accepted(reader, writer):
        try:
            await Connection(random.Random(source.random())).serve(reader, writer, target)
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(accepted, "127.0.0.1", port, backlog=4096)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(*map(int, sys.argv[1:4])))
