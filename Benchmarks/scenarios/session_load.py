"""Clients of many sessions at two gateways, and the rules that each response has to obey."""

import collections
import random
import threading
import time

from harness.command import Failure
from harness.http import basic_credentials
from scenarios import http1, session_helpers

FAULTS = (OSError, http1.Closed, http1.Truncated, http1.Malformed)


class Session:
    """A session: alive, ending (its sign-out was sent), or ended (its sign-out was acknowledged)."""

    def __init__(self, cookie):
        self.cookie = cookie
        self.ending_at = None
        self.ended_at = None


class SessionLoad:
    """Threads that sign in, request with all sessions at all gateways, and sign out, while a block runs.

    Access tokens expire during the load, so the gateways refresh tokens too. A request for the current session needs no
    token. Others may: after an outage of the store, gateways wait before they refresh tokens, so that each replica can
    first save the tokens that it has. Both kinds of requests are therefore measured separately.
    """

    def __init__(self, gateways, emails, sessions, readers=16, pause=0.03, bound=4.0):
        self.ports = [gateway.port for gateway in gateways]
        self.emails, self.wanted, self.pause, self.bound = emails, sessions, pause, bound
        self.over = threading.Event()
        self.lock = threading.Lock()
        self.alive, self.ended = [], []
        self.statuses = collections.Counter()
        self.violations = []
        # Times of responses with 503, and of those to requests that need a token.
        self.unavailable, self.unavailable_with_token = [], []
        self.acknowledged = collections.Counter()
        self.latest_use = 0.0  # Seconds from an acknowledged sign-out to the latest request that was still accepted.
        self.random = random.Random(1)
        readers = [threading.Thread(target=self.read, args=(number,), daemon=True) for number in range(readers)]
        others = [(self.sign_in, 0.15), (self.sign_out, 0.15), (self.read_ended, 0.05)]
        self.threads = readers + [
            threading.Thread(target=self.repeat, args=(work, pause), daemon=True) for work, pause in others
        ]

    def __enter__(self):
        while len(self.alive) < self.wanted:
            port = self.ports[len(self.alive) % len(self.ports)]
            email = self.emails[len(self.alive) % len(self.emails)]
            self.alive.append(Session(session_helpers.sign_in(port, email)))
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join(40)

    def violate(self, text):
        with self.lock:
            self.violations.append(text)

    # Requests

    def read(self, number):
        """Requests with random living sessions on a connection of its own."""
        port, client, generator = self.ports[number % len(self.ports)], None, random.Random(number)
        while not self.over.wait(self.pause):
            with self.lock:
                session = generator.choice(self.alive)
            client = self.request(client, port, session, "/auth" if generator.random() < 0.7 else "/videos/1")

    def request(self, client, port, session, target):
        sent = time.monotonic()
        try:
            client = client or http1.Client(port, timeout=30)
            body = client.get(target, session.cookie)
            status = client.status
            self.judge(session, status, sent, body, self.unavailable if target == "/auth" else self.unavailable_with_token)
            if client.persists:
                return client
            client.socket.close()
        except FAULTS as error:
            self.count(type(error).__name__)
            self.violate(f"a request at port {port} failed: {error!r}")
        return None

    def judge(self, session, status, sent, body, unavailable):
        now = time.monotonic()
        self.count(status)
        if status == 200 and session.ended_at is not None:
            late = sent - session.ended_at
            with self.lock:
                self.latest_use = max(self.latest_use, late)
            if late > self.bound:
                self.violate(f"200 for a session {late:.2f} s after its end")
        elif status == 401 and session.ending_at is None:
            self.violate(f"401 for a living session: {body[:200]!r}")
        elif status == 503:
            with self.lock:
                unavailable.append(now)
        elif status not in (200, 401, 503):
            self.violate(f"status {status}: {body[:200]!r}")

    def count(self, status):
        with self.lock:
            self.statuses[status] += 1

    # Changes

    def repeat(self, work, pause):
        while not self.over.wait(pause):
            try:
                work()
            except FAULTS as error:
                self.count(type(error).__name__)
                self.violate(f"{work.__name__} failed: {error!r}")

    def send(self, method, fields, body=None):
        """The status of a request at a random gateway, and its cookie."""
        with http1.Client(self.random.choice(self.ports), timeout=30) as client:
            client.send(method, "/auth", body, 0 if body is not None else None, fields=fields)
            status = client.receive()
            text = client.body()
            self.count(status)
            if status == 503:
                with self.lock:
                    self.unavailable.append(time.monotonic())
            elif status not in (200, 204, 401):
                self.violate(f"{method} /auth: status {status}: {text[:200]!r}")
            return status, client.fields.get("set-cookie", "").partition(";")[0]

    def sign_in(self):
        email = self.random.choice(self.emails)
        credentials = basic_credentials(email, session_helpers.PASSWORD)
        status, cookie = self.send("POST", f"Authorization: {credentials}\r\n", [])
        if status == 200:
            with self.lock:
                self.alive.append(Session(f"Cookie: {cookie}\r\n"))
                self.acknowledged["sign-ins"] += 1
        elif status == 401:
            self.violate("401 for a sign-in with the right password")

    def sign_out(self):
        with self.lock:
            if len(self.alive) < self.wanted // 2:
                return
            session = self.alive.pop(self.random.randrange(len(self.alive)))
        session.ending_at = time.monotonic()
        status, _ = self.send("DELETE", session.cookie)
        # Without an acknowledgement the session may have ended or not, and either is permitted from now on.
        if status == 204:
            session.ended_at = time.monotonic()
            with self.lock:
                self.ended.append(session)
                self.acknowledged["sign-outs"] += 1

    def read_ended(self):
        """An ended session has to stay ended, also after a failover."""
        with self.lock:
            session = self.random.choice(self.ended) if self.ended else None
        if session:
            client = self.request(None, self.random.choice(self.ports), session, self.random.choice(["/auth", "/videos/1"]))
            if client:
                client.socket.close()

    # Results

    def phase(self):
        return LoadPhase(self)

    def lost(self, gateways):
        """How living sessions are not accepted at each gateway, and which ended sessions are; without load."""
        lost, revived = [], []
        for gateway in gateways:
            for session in self.alive:
                if session.ending_at is None and (status := status_of(gateway, session)) != 200:
                    lost.append(f"{status} at the gateway {gateway.port}")
            revived += [session for session in self.ended if status_of(gateway, session) == 200]
        return lost, revived


def status_of(gateway, session):
    """The status of a session; attempts for 15 s, because a gateway that has just connected again refreshes no token for 7 s."""
    for _ in range(60):
        status = session_helpers.video(gateway.port, session.cookie)
        if status != 503:
            return status
        time.sleep(0.25)
    return status


class LoadPhase:
    """The part of a load that belongs to one trial: its statuses, its violations, and how long it was unavailable."""

    def __init__(self, load):
        self.load, self.start = load, time.monotonic()
        with load.lock:
            self.statuses = collections.Counter(load.statuses)
            self.violations = len(load.violations)
            self.unavailable, self.unavailable_with_token = len(load.unavailable), len(load.unavailable_with_token)
            self.acknowledged = collections.Counter(load.acknowledged)

    def wait_for_recovery(self, seconds=30, quiet=1.5, with_tokens=False):
        """Waits until there was no 503 for `quiet` seconds, also to requests that need a token if `with_tokens`.

        Returns when the last one was, in seconds after the start: without, and with requests that need a token.
        """
        while True:
            with self.load.lock:
                last = self.load.unavailable[-1] if len(self.load.unavailable) > self.unavailable else self.start
                others = self.load.unavailable_with_token
                last_with_token = max(last, others[-1] if len(others) > self.unavailable_with_token else self.start)
            now = time.monotonic()
            if now - (last_with_token if with_tokens else last) >= quiet:
                return last - self.start, last_with_token - self.start
            if now - self.start > seconds:
                raise Failure(f"responses are still 503 after {seconds} s")
            time.sleep(0.05)

    def result(self):
        with self.load.lock:
            statuses = self.load.statuses - self.statuses
            violations = self.load.violations[self.violations :]
            acknowledged = self.load.acknowledged - self.acknowledged
        counts = ", ".join(f"{count} × {status}" for status, count in sorted(statuses.items(), key=str))
        changes = ", ".join(f"{count} {kind}" for kind, count in sorted(acknowledged.items()))
        return violations, f"{counts}; {changes or 'no changes'}", acknowledged
