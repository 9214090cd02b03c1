"""Two gateways and one Redis: changes at one gateway are effective at the other, and no kill loses a session."""

import collections
import contextlib
import os
import signal
import socket
import statistics
import threading
import time

from harness.command import Failure
from harness.ports import free_port
from scenarios import http1, refresh, session_helpers

SIGN_OUTS = 50


class Redis:
    """A server that syncs each write to disk; it can be frozen, killed and restarted on its port."""

    def __init__(self, environment):
        self.environment, self.port = environment, free_port()
        self.folder = environment.folder / f"redis-{self.port}"
        self.folder.mkdir()
        self.start()

    def start(self):
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        command += ["--save", "", "--appendonly", "yes", "--appendfsync", "always"]
        self.process = self.environment.start("redis", command, self.port)

    def kill(self, number=signal.SIGKILL):
        os.kill(self.process.pid, number)
        if number == signal.SIGKILL:
            self.process.process.wait(10)

    def info(self, section):
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as client:
            client.sendall(f"INFO {section}\r\n".encode())
            text = client.recv(65_536)
            size = int(text[1 : text.index(b"\r\n")])
            while len(text) < size:
                text += client.recv(65_536)
        return text.decode()

    def connections(self):
        """How many connections it has accepted since its start, except this one."""
        return int(self.info("stats").partition("total_connections_received:")[2].split()[0]) - 1

    def reads(self):
        """How many sessions were read since its start, inside and outside of scripts."""
        return int(self.info("commandstats").partition("cmdstat_hgetall:calls=")[2].partition(",")[0] or 0)


def run(environment, checks, options):
    redis = Redis(environment)
    mock = session_helpers.mock(environment, 3_600)
    session = {"store": "valkey", "valkey": {"addresses": [f"127.0.0.1:{redis.port}"]}}
    first, second = (session_helpers.gateway(environment, mock, session) for _ in range(2))
    check_sharing(checks, first, second, 0.1 * options.slack)
    first = check_gateway_kill(environment, checks, first, second, mock, session)
    second = check_gateway_kill(environment, checks, second, first, mock, session)
    check_server_kill(checks, redis, first, second)
    check_outage(checks, redis, first, second)
    short_lived = session_helpers.mock(environment, refresh.LIFETIME)
    pair = [session_helpers.gateway(environment, short_lived, session) for _ in range(2)]
    refresh.check(checks, short_lived, pair, options.refresh_seconds)


def check_sharing(checks, first, second, limit):
    cookie = session_helpers.sign_in(first.port)
    status = session_helpers.video(second.port, cookie)
    checks.expect("a session of one gateway is valid at the other", status == 200, f"status {status}")
    delays = [sign_out_delay(first, second) for _ in range(SIGN_OUTS)]
    figures = f"median {statistics.median(delays) * 1e3:.1f} ms, at most {max(delays) * 1e3:.1f} ms of {SIGN_OUTS}"
    what = f"a sign-out at one gateway is effective at the other within {limit * 1e3:.0f} ms"
    checks.expect(what, max(delays) < limit, figures)


def sign_out_delay(first, second):
    """Seconds from the response to a sign-out until the other gateway, which has cached the session, rejects it."""
    cookie = session_helpers.sign_in(first.port)
    with http1.Client(second.port) as client:
        client.get("/videos/1", cookie)
        if client.status != 200:
            raise Failure(f"the second gateway responds with {client.status}")
        session_helpers.sign_out(first.port, cookie)
        start = time.monotonic()
        while time.monotonic() - start < 5:
            sent = time.monotonic()
            client.get("/videos/1", cookie)
            if client.status == 401:
                return sent - start
        return 5


def check_gateway_kill(environment, checks, victim, other, mock, session):
    cookies = [session_helpers.sign_in(port) for port in (victim.port, other.port) * 20]
    os.kill(victim.pid, signal.SIGKILL)
    statuses = [session_helpers.video(other.port, cookie) for cookie in cookies]
    checks.expect("kill -9 of a gateway: the other has all sessions", set(statuses) == {200}, f"{len(statuses)} requests")
    successor = session_helpers.gateway(environment, mock, session)
    statuses = [session_helpers.video(successor.port, cookie) for cookie in cookies]
    checks.expect("and so has its successor", set(statuses) == {200}, f"{len(statuses)} requests")
    return successor


def check_server_kill(checks, redis, first, second):
    cookies = [session_helpers.sign_in(port) for port in (first.port, second.port) * 20]
    redis.kill()
    redis.start()
    recovered = recovery_seconds(first, cookies[0]), recovery_seconds(second, cookies[0])
    statuses = [session_helpers.video(gateway.port, cookie) for gateway in (first, second) for cookie in cookies]
    figures = f"{len(statuses)} requests, recovered after {recovered[0]:.2f} and {recovered[1]:.2f} s"
    checks.expect("kill -9 of the server loses no session", set(statuses) == {200}, figures)


def recovery_seconds(gateway, cookie):
    start = time.monotonic()
    while time.monotonic() - start < 20:
        with contextlib.suppress(OSError, http1.Closed):
            if session_helpers.video(gateway.port, cookie) == 200:
                break
        time.sleep(0.02)
    return time.monotonic() - start


def check_outage(checks, redis, first, second):
    cookies = [session_helpers.sign_in(first.port) for _ in range(20)]
    for gateway in (first, second):
        for cookie in cookies:
            session_helpers.video(gateway.port, cookie)
    groups = [session_helpers.SessionClients([first, second], cookie, 4) for cookie in cookies]
    with contextlib.ExitStack() as stack:
        for group in groups:
            stack.enter_context(group)
        time.sleep(1)
        redis.kill(signal.SIGSTOP)
        time.sleep(3)
        frozen = sum((group.statuses for group in groups), start=collections.Counter())
        redis.kill(signal.SIGCONT)
        time.sleep(1)
        redis.kill()
        time.sleep(5)
        start = time.monotonic()
        redis.start()
        delays = [0.0, 0.0]
        waits = [
            threading.Thread(target=lambda n=n, g=g: delays.__setitem__(n, recovery_seconds(g, cookies[0])))
            for n, g in enumerate((first, second))
        ]
        for wait in waits:
            wait.start()
        for wait in waits:
            wait.join()
        recovered = time.monotonic() - start
        time.sleep(2)
    statuses = sum((group.statuses for group in groups), start=collections.Counter())
    figures = ", ".join(f"{count} × {status}" for status, count in sorted(statuses.items(), key=str))
    checks.note(f"before and during the freeze of the server: {dict(frozen)}")
    checks.expect("an outage of the server is 200 or 503, never 401", set(statuses) <= {200, 503}, figures)
    checks.expect("service recovers within 6 s of the server", recovered < 6, f"{recovered:.2f} s")
    connections = redis.connections()
    checks.expect("its restart causes no burst of connections", connections <= 8, f"{connections} connections")
    # 80 clients resume at the same time. Each of two gateways reads each of 20 sessions once, and once more where it is used.
    reads = redis.reads()
    checks.expect("and no burst of reads", reads <= 4 * len(cookies) * 2, f"{reads} reads")
    for gateway in (first, second):
        statuses = {session_helpers.video(gateway.port, cookie) for cookie in cookies}
        checks.expect("afterwards all sessions are valid", statuses == {200}, f"{len(cookies)} requests")
