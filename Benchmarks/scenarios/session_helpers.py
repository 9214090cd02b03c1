"""Gateways with the mock API as upstream, and clients with a session."""

import collections
import json
import threading
import time

from harness.command import Failure
from harness.gateway import demo_program
from harness.http import basic_credentials, request
from harness.ports import free_port
from scenarios import http1

TOKEN = "test-api-token"
EMAIL, PASSWORD = "jo@example.com", "correct horse"
SECRET = "a session secret that is long enough for a test"


def mock(environment, lifetime, emails=(EMAIL,)):
    """Starts the mock API. Access tokens expire after `lifetime` seconds, refresh tokens are valid once."""
    port = free_port()
    command = [demo_program(environment.binary), "mock-api", "--port", str(port), "--api-token", TOKEN]
    for email in emails:
        command += ["--user", f"{email}:{PASSWORD}"]
    environment.start("mock", [*command, "--access-token-lifetime", str(lifetime), "--expose-observations"], port)
    return port


def observations(mock_port):
    """What the mock has recorded."""
    _, _, text = request(f"http://127.0.0.1:{mock_port}/__mock/requests", headers={"X-API-TOKEN": TOKEN})
    return json.loads(text)


def gateway(environment, mock_port, session, tokens=None, user=None, accounts=None, **changes):
    """Starts a gateway with sign-in. `tokens` are keys of the calls that return tokens, `user` those of the user's."""
    routes = [
        {"name": "all", "methods": ["GET"], "path": "/*", "upstream": "api", "requiresAuthorization": False},
        {
            "name": "video",
            "methods": ["GET"],
            "path": "/videos/{id}",
            "upstream": "api",
            "requiresAuthorization": True,
            "inject": ["apiToken", "bearer"],
        },
    ]
    upstream = {
        "targets": [f"http://127.0.0.1:{mock_port}"],
        "apiToken": {"value": TOKEN},
        "signIn": {"path": "/auth", **(tokens or {})},
        "refresh": {"path": "/auth/refresh", **(tokens or {})},
        "revoke": {"path": "/auth/revoke"},
        "user": {"path": "/user", **(user or {})},
    }
    return environment.gateway(
        warm_up=False,
        upstream=upstream,
        routes=routes,
        session={"cookie": {"name": "cloakroom", "secure": False}, "secrets": [SECRET], **session},
        accounts=accounts or {"throttle": False},
        **changes,
    )


def send_sign_in(client, email):
    """Signs in on a connection. Returns the status and the body of the response."""
    client.send("POST", "/auth", [], 0, fields=f"Authorization: {basic_credentials(email, PASSWORD)}\r\n")
    return client.receive(), client.body()


def sign_in(port, email=EMAIL, timeout=30):
    """Signs in and returns the cookie, as a field line."""
    with http1.Client(port, timeout) as client:
        status, body = send_sign_in(client, email)
        if status != 200:
            raise Failure(f"sign-in failed with status {status}: {body[:200]!r}")
        return f"Cookie: {client.fields['set-cookie'].partition(';')[0]}\r\n"


def sign_out(port, cookie):
    with http1.Client(port) as client:
        client.send("DELETE", "/auth", fields=cookie)
        return client.receive()


def video(port, cookie, timeout=10):
    """The status of a request that needs the session."""
    with http1.Client(port, timeout) as client:
        client.get("/videos/1", cookie)
        return client.status


def current_session(port, cookie, timeout=10):
    """The status of a request for the current session: a local response."""
    with http1.Client(port, timeout) as client:
        client.get("/auth", cookie)
        return client.status


class ClientThreads:
    """Threads that send requests while a block runs, until `over` is set at its end."""

    def __init__(self):
        self.over = threading.Event()
        self.threads = []

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join(40)


class SessionClients(ClientThreads):
    """Clients with one session that send requests continuously. `statuses` counts the responses."""

    def __init__(self, gateways, cookie, count, pause=0.1):
        super().__init__()
        self.ports, self.cookie, self.pause = [gateway.port for gateway in gateways], cookie, pause
        self.statuses = collections.Counter()
        self.slowest = 0.0
        self.samples = []
        self.threads = [threading.Thread(target=self.send_requests, args=(number,), daemon=True) for number in range(count)]

    def send_requests(self, number):
        port, client = self.ports[number % len(self.ports)], None
        # Starts are distributed over the pause.
        self.over.wait(self.pause * number / max(1, len(self.threads)))
        while not self.over.is_set():
            start = time.monotonic()
            try:
                client = client or http1.Client(port, timeout=30)
                body = client.get("/videos/1", self.cookie)
                self.statuses[client.status] += 1
                if client.status != 200 and len(self.samples) < 10:
                    self.samples.append(body[:300])
                if not client.persists:
                    client.socket.close()
                    client = None
            except (OSError, http1.Closed, http1.Truncated, http1.Malformed) as error:
                self.statuses[type(error).__name__] += 1
                client = None
            self.slowest = max(self.slowest, time.monotonic() - start)
            self.over.wait(self.pause)

    def format_statuses(self):
        return ", ".join(f"{count} × {status}" for status, count in sorted(self.statuses.items(), key=str))


class RefreshCounter:
    """Counts the refresh grants of the mock while a block runs, with their times."""

    def __init__(self, mock_port):
        self.mock_port = mock_port

    def __enter__(self):
        self.first = observations(self.mock_port)["refreshes"]
        return self

    def __exit__(self, *_):
        final = observations(self.mock_port)
        self.count, self.reuse = final["refreshes"] - self.first, final["reuseDetections"]
        moments = final["refreshTimes"][-self.count :] if self.count else []
        self.gaps = [later - earlier for earlier, later in zip(moments, moments[1:])]
