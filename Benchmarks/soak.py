#!/usr/bin/env python3
"""Keeps many connections busy and checks for errors and memory growth. See README.md.

With a running gateway:      soak.py --url https://localhost:8443 --pid PID
With a gateway of its own:   soak.py [--product BINARY]
"""

import argparse
import asyncio
import collections
import contextlib
import pathlib
import time

from harness.command import Failure, run_command
from harness.environment import BenchmarkEnvironment
from harness.gateway import release_build
from harness.http import sign_in, unverified_context
from harness.measure import tree_resident_bytes
from harness.process import allow_many_files, two_cores

STEP_SECONDS = 10
RESPONSE_SECONDS = 20


class Soak:
    """The clients, and their counts."""

    def __init__(self, url, cookie, path):
        scheme, _, address = url.rstrip("/").partition("://")
        host, _, port = address.rpartition(":")
        if scheme not in ("http", "https") or not port.isdigit():
            raise Failure(f"{url} must be http://HOST:PORT or https://HOST:PORT")
        self.host, self.port, self.tls = host, int(port), None
        if scheme == "https":
            self.tls = unverified_context()
        self.message = f"GET {path} HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\n\r\n".encode()
        self.responses = 0
        self.errors = collections.Counter()
        self.connected = 0
        self.is_over = False

    async def client(self):
        """One client: sequential requests on a persistent connection. Reconnects after an error."""
        while not self.is_over:
            try:
                await self.connection()
            except (OSError, EOFError, ValueError, asyncio.TimeoutError, asyncio.LimitOverrunError) as error:
                # EOFError is what asyncio's IncompleteReadError is.
                if not self.is_over:
                    self.errors[f"{type(error).__name__}: {error}"] += 1
                    await asyncio.sleep(0.1)

    async def connection(self):
        opening = asyncio.open_connection(self.host, self.port, ssl=self.tls)
        reader, writer = await asyncio.wait_for(opening, RESPONSE_SECONDS)
        self.connected += 1
        try:
            while not self.is_over:
                writer.write(self.message)
                status = await asyncio.wait_for(self.read_response(reader), RESPONSE_SECONDS)
                if status == 200:
                    self.responses += 1
                else:
                    self.errors[f"status {status}"] += 1
                    await asyncio.sleep(0.1)
        finally:
            self.connected -= 1
            writer.close()

    async def read_response(self, reader):
        """Reads one complete response and returns its status."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        status = int(head[9:12])
        fields = dict(line.partition(":")[::2] for line in head.split("\r\n")[1:])
        if "content-length" in fields:
            await reader.readexactly(int(fields["content-length"]))
            return status
        if "chunked" not in fields.get("transfer-encoding", ""):
            raise ValueError("a response without a length")
        while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
            await reader.readexactly(size + 2)
        while await reader.readuntil(b"\r\n") != b"\r\n":
            pass
        return status

    async def run(self, clients, seconds, resident):
        """Runs the clients and returns (second, resident bytes) per step."""
        tasks = [asyncio.create_task(self.client()) for _ in range(clients)]
        start = time.monotonic()
        series = []
        marks = sorted({*range(STEP_SECONDS, seconds + 1, STEP_SECONDS), seconds} | {warm_up(seconds)})
        print("| s | connected | responses | errors | RSS |\n| ---: | ---: | ---: | ---: | ---: |", flush=True)
        try:
            for mark in marks:
                await asyncio.sleep(start + mark - time.monotonic())
                series.append((mark, resident()))
                print(
                    f"| {mark} | {self.connected} | {self.responses:,} | {self.errors.total()} "
                    f"| {series[-1][1] / 2**20:.1f} MiB |",
                    flush=True,
                )
        finally:
            self.is_over = True
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return series


def warm_up(seconds):
    """The time of the first memory sample in seconds."""
    return min(15, max(1, seconds // 4))


def find_problems(soak, series, seconds, growth):
    """Errors and memory growth, as sentences."""
    for error, count in soak.errors.most_common():
        yield f"{count} × {error}"
    if not soak.responses:
        yield "no response"
    warm = dict(series)[warm_up(seconds)]
    end = series[-1][1]
    if end > warm * (1 + growth / 100):
        yield f"memory grew from {warm / 2**20:.1f} MiB to {end / 2**20:.1f} MiB, more than {growth} %"


def resident_of(pid):
    def resident():
        found = tree_resident_bytes(pid)
        if not found:
            raise Failure(f"no process {pid}")
        return found

    return resident


@contextlib.contextmanager
def target(options):
    """URL, process id and cookie of the gateway."""
    if options.url:
        yield options.url, options.pid, options.cookie or sign_in(options.url.rstrip("/"))
        return
    gateway_core, other_core = two_cores()
    with BenchmarkEnvironment(upstream_core=other_core) as environment:
        gateway = environment.product(options.product or release_build())
        with gateway.running(gateway_core) as process:
            yield gateway.url("https" if options.tls else "http", ""), process.pid, gateway.cookie


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a running gateway's listener; signs in unless --cookie is given")
    parser.add_argument("--pid", type=int, help="that gateway's process id")
    parser.add_argument("--cookie", help="its session cookie, as name=value")
    parser.add_argument("--product", type=pathlib.Path, help="the binary to start; default: the release build's")
    parser.add_argument("--tls", action="store_true", help="TLS to a gateway of its own")
    parser.add_argument("--path", default="/videos/1", help="path of the requests; default: %(default)s")
    parser.add_argument("--clients", type=int, default=1_000, help="concurrent connections; default: %(default)s")
    parser.add_argument("--seconds", type=int, default=60, help="5 to 3600; default: %(default)s")
    parser.add_argument("--growth", type=float, default=10, help="permitted memory growth in percent; default: %(default)s")
    options = parser.parse_args()
    if bool(options.url) != bool(options.pid):
        parser.error("--url and --pid require each other")
    if not 5 <= options.seconds <= 3600 or options.clients < 1:
        parser.error("5 to 3600 seconds, and at least one client")
    allow_many_files()
    with target(options) as (url, pid, cookie):
        soak = Soak(url, cookie, options.path)
        series = asyncio.run(soak.run(options.clients, options.seconds, resident_of(pid)))
    wrong = list(find_problems(soak, series, options.seconds, options.growth))
    for sentence in wrong:
        print(f"soak: {sentence}")
    if not wrong:
        print(f"soak: {soak.responses:,} responses to {options.clients} clients, no errors, memory is stable")
    return 1 if wrong else 0


if __name__ == "__main__":
    run_command(main)
