"""Two gateways and one Redis: what one does counts at the other, and no session is lost whatever is killed."""

import contextlib
import os
import signal
import socket
import statistics
import threading
import time

from rig import Failure
from trials import http1, renewal, signedin

SIGN_OUTS = 50


class Redis:
    """A server that writes down everything at once; it can be stopped, killed and started again on its port."""

    def __init__(self, stage):
        self.stage, self.port = stage, stage.free_port()
        self.folder = stage.folder / f"redis-{self.port}"
        self.folder.mkdir()
        self.start()

    def start(self):
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        command += ["--save", "", "--appendonly", "yes", "--appendfsync", "always"]
        self.process = self.stage.process("redis", command, self.port)

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
        """How many connections it has taken since it was started, this one not counted."""
        return int(self.info("stats").partition("total_connections_received:")[2].split()[0]) - 1

    def reads(self):
        """How many sessions were read from it since it was started, within scripts or not."""
        return int(self.info("commandstats").partition("cmdstat_hgetall:calls=")[2].partition(",")[0] or 0)


def run(stage, verdict, options):
    redis = Redis(stage)
    mock = signedin.mock(stage, 3_600)
    session = {"store": "valkey", "valkey": {"addresses": [f"127.0.0.1:{redis.port}"]}}
    first, second = (signedin.gateway(stage, mock, session) for _ in range(2))
    shared(verdict, first, second)
    first = killed(stage, verdict, first, second, mock, session)
    second = killed(stage, verdict, second, first, mock, session)
    restarted(verdict, redis, first, second)
    outage(verdict, redis, first, second)
    short_lived = signedin.mock(stage, renewal.LIFETIME)
    pair = [signedin.gateway(stage, short_lived, session) for _ in range(2)]
    renewal.judge(verdict, short_lived, pair, options.renewal_seconds)


def shared(verdict, first, second):
    cookie = signedin.sign_in(first.port)
    status = signedin.video(second.port, cookie)
    verdict.holds("who signs in at one is known at the other", status == 200, f"status {status}")
    delays = [sign_out_delay(first, second) for _ in range(SIGN_OUTS)]
    figures = f"median {statistics.median(delays) * 1e3:.1f} ms, at most {max(delays) * 1e3:.1f} ms of {SIGN_OUTS}"
    verdict.holds("who signs out at one is refused at the other within 100 ms", max(delays) < 0.1, figures)


def sign_out_delay(first, second):
    """Seconds from the answer to a sign-out until the other gateway, which has the session at hand, refuses it."""
    cookie = signedin.sign_in(first.port)
    with http1.Client(second.port) as client:
        client.get("/videos/1", cookie)
        if client.status != 200:
            raise Failure(f"the second gateway answers {client.status}")
        signedin.sign_out(first.port, cookie)
        told = time.monotonic()
        while time.monotonic() - told < 5:
            asked = time.monotonic()
            client.get("/videos/1", cookie)
            if client.status == 401:
                return asked - told
        return 5


def killed(stage, verdict, victim, other, mock, session):
    cookies = [signedin.sign_in(port) for port in (victim.port, other.port) * 20]
    os.kill(victim.pid, signal.SIGKILL)
    statuses = [signedin.video(other.port, cookie) for cookie in cookies]
    verdict.holds("kill -9 of a gateway: the other has all sessions", set(statuses) == {200}, f"{len(statuses)} asked")
    successor = signedin.gateway(stage, mock, session)
    statuses = [signedin.video(successor.port, cookie) for cookie in cookies]
    verdict.holds("and so has its successor", set(statuses) == {200}, f"{len(statuses)} asked")
    return successor


def restarted(verdict, redis, first, second):
    cookies = [signedin.sign_in(port) for port in (first.port, second.port) * 20]
    redis.kill()
    redis.start()
    back = until_back(first, cookies[0]), until_back(second, cookies[0])
    statuses = [signedin.video(gateway.port, cookie) for gateway in (first, second) for cookie in cookies]
    figures = f"{len(statuses)} asked, back after {back[0]:.2f} and {back[1]:.2f} s"
    verdict.holds("kill -9 of the server loses no session", set(statuses) == {200}, figures)


def until_back(gateway, cookie):
    start = time.monotonic()
    while time.monotonic() - start < 20:
        with contextlib.suppress(OSError, http1.Closed):
            if signedin.video(gateway.port, cookie) == 200:
                break
        time.sleep(0.02)
    return time.monotonic() - start


def outage(verdict, redis, first, second):
    cookies = [signedin.sign_in(first.port) for _ in range(20)]
    for gateway in (first, second):
        for cookie in cookies:
            signedin.video(gateway.port, cookie)
    crowds = [signedin.Crowd([first, second], cookie, 4) for cookie in cookies]
    with contextlib.ExitStack() as stack:
        for crowd in crowds:
            stack.enter_context(crowd)
        time.sleep(1)
        redis.kill(signal.SIGSTOP)
        time.sleep(3)
        frozen = sum((crowd.statuses for crowd in crowds), start=type(crowds[0].statuses)())
        redis.kill(signal.SIGCONT)
        time.sleep(1)
        redis.kill()
        time.sleep(5)
        start = time.monotonic()
        redis.start()
        delays = [0.0, 0.0]
        waits = [
            threading.Thread(target=lambda n=n, g=g: delays.__setitem__(n, until_back(g, cookies[0])))
            for n, g in enumerate((first, second))
        ]
        for wait in waits:
            wait.start()
        for wait in waits:
            wait.join()
        back = time.monotonic() - start
        time.sleep(2)
    statuses = sum((crowd.statuses for crowd in crowds), start=type(crowds[0].statuses)())
    figures = ", ".join(f"{count} × {status}" for status, count in sorted(statuses.items(), key=str))
    verdict.figure(f"while the server was frozen and before: {dict(frozen)}")
    verdict.holds("an outage of the server is 200 or 503, never 401", set(statuses) <= {200, 503}, figures)
    verdict.holds("service is back within 6 s of the server", back < 6, f"{back:.2f} s")
    connections = redis.connections()
    verdict.holds("its return is met by no storm of connections", connections <= 8, f"{connections} connections")
    # 80 clients came back at once; each of two gateways needs each of 20 sessions once, and once more where it was used.
    reads = redis.reads()
    verdict.holds("and by no thundering herd of reads", reads <= 4 * len(cookies) * 2, f"{reads} reads")
    for gateway in (first, second):
        statuses = {signedin.video(gateway.port, cookie) for cookie in cookies}
        verdict.holds("afterwards all sessions are there", statuses == {200}, f"{len(cookies)} asked")
