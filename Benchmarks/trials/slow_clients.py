"""Clients that send or read slowly, each on a connection of its own.

usage: python3 -m trials.slow_clients PORT KIND COUNT RAMP SECONDS UNIT FILE

bodies   POST of 600 bytes, one byte per second
paused   POST of 16 KiB at 1 KiB/s, with two pauses of 8 units and one of 25; a unit is UNIT seconds
readers  GET of 4 MiB, read at 100 bytes per second through a small receive buffer

Clients start within RAMP seconds. Writes a JSON list of {"status", "seconds", "bytes"}: the status of the response or
0, when the response or the end of the connection came, and the bytes of the body that were read. A client without
either after SECONDS has "seconds": null.
"""

import asyncio
import json
import socket
import sys
import time

from harness.process import allow_many_files

LARGE = 4_194_304


def socket_to(port, kind):
    connection = socket.socket()
    connection.setblocking(False)
    if kind == "readers":
        # The kernel would otherwise accept megabytes on behalf of a client that reads nothing.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    return connection


async def receive_head(loop, connection):
    buffer = b""
    while b"\r\n\r\n" not in buffer:
        piece = await loop.sock_recv(connection, 2_048)
        if not piece:
            return 0, b""
        buffer += piece
    head, _, rest = buffer.partition(b"\r\n\r\n")
    return int(head[9:12]), rest


async def send_slowly(loop, connection, kind, unit):
    count = 600 if kind == "bodies" else 16_384
    head = b"POST /upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
    await loop.sock_sendall(connection, head % count)
    if kind == "bodies":
        for _ in range(count):
            await asyncio.sleep(1)
            await loop.sock_sendall(connection, b"x")
        return
    for pause in (8, 8, 25, 0):
        for _ in range(4):
            await loop.sock_sendall(connection, bytes(1_024))
            await asyncio.sleep(unit)
        await asyncio.sleep(pause * unit)


async def client(port, kind, delay, unit, result):
    loop = asyncio.get_running_loop()
    await asyncio.sleep(delay)
    connection = socket_to(port, kind)
    start = time.monotonic()
    sender = None
    try:
        await loop.sock_connect(connection, ("127.0.0.1", port))
        if kind == "readers":
            await loop.sock_sendall(connection, b"GET /bytes/%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % LARGE)
        else:
            sender = asyncio.ensure_future(send_slowly(loop, connection, kind, unit))
        status, rest = await receive_head(loop, connection)
        result["status"], result["bytes"] = status, len(rest)
        while kind == "readers" and status == 200:
            await asyncio.sleep(1)
            piece = await loop.sock_recv(connection, 100)
            if not piece:
                break
            result["bytes"] += len(piece)
    except OSError:
        # A reset, also one that a client receives while it sends. What was received before counts.
        pass
    finally:
        if sender:
            sender.cancel()
        connection.close()
    result["seconds"] = round(time.monotonic() - start, 2)


async def run(port, kind, count, ramp, seconds, unit, file):
    results = [{"status": 0, "seconds": None, "bytes": 0} for _ in range(count)]
    tasks = [
        asyncio.ensure_future(client(port, kind, number * ramp / count, unit, result))
        for number, result in enumerate(results)
    ]
    await asyncio.wait(tasks, timeout=seconds)
    with open(file, "w") as output:
        json.dump(results, output)
    for task in tasks:
        task.cancel()


if __name__ == "__main__":
    port, kind, count, ramp, seconds, unit, file = sys.argv[1:]
    allow_many_files()
    asyncio.run(run(int(port), kind, int(count), float(ramp), float(seconds), float(unit), file))
