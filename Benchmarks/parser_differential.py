#!/usr/bin/env python3
"""Differential parsing test: do the gateway and its upstream parse the same requests from the bytes of a client?

Each of some 300 malformed or ambiguous HTTP/1.1 requests is sent through the gateway to nginx and to HAProxy: followed
immediately by a well-formed request, or after its response if the connection is still open; and with its body after a
delay, so that the head is forwarded before the body is parsed. The requests in the upstream's log must be those that the
gateway's access log marks as forwarded. A request hidden in another one must not appear in any log. A response must belong
to its request. A request that no specification permits must be rejected and the connection closed. Prints the rejections by
family and status.

  parser_differential.py                             both upstreams, all cases
  parser_differential.py --family chunks --verbose   every case of a family, with its result

Takes about 20 seconds. Needs nginx and haproxy. Exits with 1 if a check fails.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import itertools
import json
import pathlib
import re
import socket
import threading
import time

from harness.checks import Checks
from harness.command import run_command
from harness.environment import TestEnvironment
from harness.gateway import release_build
from harness.ports import free_port
from scenarios import malformed

ATTEMPTS_AT_A_TIME = 16
# After this time without bytes the gateway is taken to wait for the client.
QUIET_SECONDS = 0.4
# The delay between head and body in mode "in parts".
PART_SECONDS = 0.05
TEST_PATH = re.compile(r"^/(?:a/)?(?:case|marker|smuggled)/(\d{6})")


@dataclasses.dataclass
class Attempt:
    """One case on one connection, and its responses: (status, target that the upstream received)."""

    number: int
    case: malformed.Case
    mode: str
    responses: list = dataclasses.field(default_factory=list)
    is_closed: bool = False

    def __str__(self):
        received = ", ".join(f"{status}{f' to {seen}' if seen else ''}" for status, seen in self.responses) or "no response"
        return f"{self.case.family}, {self.case.name}, {self.mode}: {received}; {'closed' if self.is_closed else 'open'}"

    @property
    def status(self):
        return self.responses[0][0] if self.responses else 0

    @property
    def is_rejected(self):
        """Rejected by the gateway, without a second response."""
        return len(self.responses) == 1 and self.status >= 400 and not self.responses[0][1] and self.is_closed


def run_attempt(attempt, port):
    marker = malformed.MARKER.replace("NUMBER", f"{attempt.number:06d}").encode()
    received = bytearray()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        text = attempt.case.bytes(attempt.number)
        if attempt.mode == "in parts":
            head, _, text = text.partition(b"\r\n\r\n")
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            send(connection, head + b"\r\n\r\n")
            time.sleep(PART_SECONDS)
        attempt.is_closed = send(connection, text + marker if attempt.mode == "pipelined" else text)
        attempt.is_closed = receive(connection, received) or attempt.is_closed
        if attempt.mode != "pipelined" and not attempt.is_closed:
            send(connection, marker)
            attempt.is_closed = receive(connection, received)
    attempt.responses = list(parse_responses(bytes(received), attempt.case.text.startswith("HEAD ")))
    return attempt


def send(connection, text):
    try:
        connection.sendall(text)
    except ConnectionError:
        return True
    return False


def receive(connection, received):
    """Receives until the connection is quiet. Returns whether it is closed."""
    connection.settimeout(QUIET_SECONDS)
    try:
        while piece := connection.recv(65_536):
            received += piece
        return True
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def parse_responses(received, is_head):
    """The final responses in the received bytes."""
    while received.startswith(b"HTTP/1."):
        head, _, received = received.partition(b"\r\n\r\n")
        status = int(head[9:12])
        found = re.search(rb"(?im)^x-seen: (.*?)\r?$", head)
        length = re.search(rb"(?im)^content-length: (\d+)", head)
        if status < 200:
            continue
        yield status, found[1].decode("latin-1") if found else ""
        if b"chunked" in head.lower():
            received = received.partition(b"0\r\n\r\n")[2]
        elif length and not is_head:
            received = received[int(length[1]) :]
        # Only the first request of an attempt may be a HEAD.
        is_head = False
    if received:
        yield 0, f"bytes that are not a response: {received[:60]!r}"


def modes(case):
    has_body = not case.text.endswith("\r\n\r\n") or case.text.count("\r\n\r\n") > 1
    return ("pipelined", "one by one", "in parts") if has_body else ("pipelined", "one by one")


# Reference servers


class ReferenceServer:
    """An upstream that logs the requests it parses."""

    def __init__(self):
        self.port = free_port()

    def seen(self):
        """Waits until the log is quiet, and returns its lines: METHOD TARGET STATUS."""
        lines = None
        while lines is None or len(self.lines()) != len(lines):
            lines = self.lines()
            time.sleep(0.5)
        return lines


class Nginx(ReferenceServer):
    name = "nginx"

    def start(self, environment):
        self.file = environment.folder / "nginx.seen"
        config = environment.fill("reference-server.nginx.conf", SERVER_PORT=self.port, ORIGIN_PORT=environment.origin_port)
        environment.start(self.name, ["nginx", "-c", config], self.port)

    def lines(self):
        return self.file.read_text(errors="replace").splitlines()


class HAProxy(ReferenceServer):
    name = "haproxy"

    def start(self, environment):
        self.log = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.log.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**22)
        self.log.bind(("127.0.0.1", 0))
        self.received = []
        environment.processes.stack.callback(self.log.close)
        threading.Thread(target=self.receive_lines, daemon=True).start()
        config = environment.fill(
            "reference-server.haproxy.cfg",
            SERVER_PORT=self.port,
            ORIGIN_PORT=environment.origin_port,
            LOG_PORT=self.log.getsockname()[1],
        )
        environment.start(self.name, ["haproxy", "-f", config], self.port)

    def receive_lines(self):
        while True:
            try:
                line = self.log.recv(65_536).decode(errors="replace").strip()
            except OSError:
                return
            # Notices of start and stop use the same socket.
            if len(line.split(" ")) == 3:
                self.received.append(line)

    def lines(self):
        return list(self.received)


REFERENCE_SERVERS = {server.name: server for server in (Nginx, HAProxy)}


def path_of(target):
    """The path of a target in origin form or absolute form, without its query."""
    return re.sub(r"(?i)^https?://[^/]*", "", target).partition("?")[0]


def parse_line(line):
    """(method, path) of a line of a server's log, or None if the request is not part of the test, such as a warm-up."""
    method, target, status = line.split(" ")
    path = path_of(target)
    if not TEST_PATH.match(path):
        # A request that the server could not parse counts too.
        return ("(malformed)", line) if method not in ("GET", "HEAD") or status == "400" else None
    return method, path


def forwarded(log):
    """(method, path) of the requests that the gateway's log marks as forwarded: complete ones and aborted ones."""
    complete, aborted = collections.Counter(), collections.Counter()
    for line in pathlib.Path(log).read_text(errors="replace").splitlines():
        entry = json.loads(line) if line.startswith("{") else {}
        if entry.get("logger") == "access" and "upstream_ms" in entry and TEST_PATH.match(path := path_of(entry["path"])):
            (aborted if "error" in entry else complete)[entry["method"], path] += 1
    return complete, aborted


# The test


def test_server(environment, checks, server, cases, options, numbers):
    server.start(environment)
    gateway = environment.gateway(upstream_port=server.port, upstream={"pool": {"maxConnections": 8}})
    attempts = [Attempt(next(numbers), case, mode) for case in cases for mode in modes(case)]
    with concurrent.futures.ThreadPoolExecutor(ATTEMPTS_AT_A_TIME) as pool:
        list(pool.map(lambda attempt: run_attempt(attempt, gateway.port), attempts))
    log = gateway.process.log
    lines = server.seen()
    status = gateway.stop()
    checks.expect(f"{server.name}: the gateway runs to the end", status == 0, f"status {status}")
    if options.verbose:
        for attempt in attempts:
            checks.note(str(attempt))
    check_requests(checks, server, lines, log, attempts)
    check_responses(checks, server, attempts)
    return attempts


def check_requests(checks, server, lines, log, attempts):
    complete, aborted = forwarded(log)
    seen = collections.Counter(filter(None, map(parse_line, lines)))
    by_number = {attempt.number: attempt for attempt in attempts}

    def explain(difference):
        for (method, path), count in itertools.islice(difference.items(), 10):
            found = TEST_PATH.match(path)
            checks.note(f"{count} × {method} {path[:80]}")
            checks.note(f"  {by_number[int(found[1])]}" if found else "  not from an attempt")

    unknown = seen - complete - aborted
    explain(unknown)
    figures = f"{seen.total()} seen, {complete.total()} forwarded, {aborted.total()} aborted"
    checks.expect(f"{server.name}: receives no request that the gateway did not forward", not unknown, figures)
    lost = complete - seen
    explain(lost)
    checks.expect(
        f"{server.name}: receives every request that the gateway forwarded completely", not lost, f"{lost.total()} missing"
    )
    hidden = sum(count for (_, path), count in seen.items() if path.startswith("/smuggled/"))
    counted = sum(count for (_, path), count in (complete + aborted).items() if path.startswith("/smuggled/"))
    figures = f"{hidden} seen, {counted} counted by the gateway: pipelined after a complete request"
    checks.expect(f"{server.name}: no hidden request appears", hidden <= counted, figures)


def check_responses(checks, server, attempts):
    crossed = []
    for attempt in attempts:
        for _, seen in attempt.responses:
            if seen and f"{attempt.number:06d}" not in seen:
                crossed.append(attempt)
    for attempt in crossed[:10]:
        checks.note(str(attempt))
    checks.expect(f"{server.name}: every response belongs to its request", not crossed, f"{len(crossed)} do not")
    passed = [attempt for attempt in attempts if attempt.case.must_reject and not attempt.is_rejected]
    for attempt in passed[:40]:
        checks.note(str(attempt))
    count = sum(attempt.case.must_reject for attempt in attempts)
    checks.expect(
        f"{server.name}: {count} malformed requests are rejected and the connection closed", not passed, f"{len(passed)} are not"
    )


def table(attempts):
    """A table of families and statuses."""
    statuses = sorted({attempt.status for attempt in attempts})
    titles = ["none" if status == 0 else "forwarded" if status == 200 else str(status) for status in statuses]
    yield f"| family | cases | {' | '.join(titles)} |"
    yield f"| --- | ---: |{' ---: |' * len(titles)}"
    for family in dict.fromkeys(attempt.case.family for attempt in attempts):
        of_family = [attempt for attempt in attempts if attempt.case.family == family]
        counts = collections.Counter(attempt.status for attempt in of_family)
        cells = " | ".join(str(counts[status] or "") for status in statuses)
        yield f"| {family} | {len({attempt.case for attempt in of_family})} | {cells} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--product", type=pathlib.Path, help="the gateway's binary; default: the release build's")
    parser.add_argument("--upstreams", default="nginx,haproxy", help="default: %(default)s")
    parser.add_argument("--family", choices=malformed.FAMILIES, help="only these cases")
    parser.add_argument("--verbose", action="store_true", help="print the result of every case")
    options = parser.parse_args()
    unknown = set(options.upstreams.split(",")) - set(REFERENCE_SERVERS)
    if unknown:
        parser.error(f"no upstream {', '.join(unknown)}; choose from {', '.join(REFERENCE_SERVERS)}")
    cases = [case for case in malformed.cases() if options.family in (None, case.family)]
    checks, attempts, numbers = Checks(), [], itertools.count(1)
    with TestEnvironment(options.product or release_build()) as environment:
        for name in options.upstreams.split(","):
            attempts += test_server(environment, checks, REFERENCE_SERVERS[name](), cases, options, numbers)
    print(f"\nFirst responses to {len(attempts)} attempts of {len(cases)} cases:\n")
    print("\n".join(table(attempts)))
    print(f"\nparser_differential: {checks.summary()}")
    return checks.exit_status


if __name__ == "__main__":
    run_command(main)
