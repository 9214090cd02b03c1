"""Traffic for running gateways that makes them record every metric."""

import json
import signal
import time

from harness.command import Failure
from harness.http import begin_login, complete_login, request, session_cookie

USER = {"email": "jo@example.com", "password": "secret"}


class Client:
    """An HTTPS client that keeps a cookie and does not verify certificates."""

    def __init__(self, port):
        self.port = port
        self.cookie = None

    def request(self, method, path, body=None):
        """Sends a request and returns the status of its response."""
        headers = {"Cookie": self.cookie} if self.cookie else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(body)
        status, fields, _ = request(f"https://127.0.0.1:{self.port}{path}", method, headers, body, timeout=30)
        self.cookie = session_cookie(fields) or self.cookie
        return status


def visit(port):
    """Signs in and requests every page; a second client sends requests that are rejected. Returns the first client."""
    user, anonymous = Client(port), Client(port)
    if (status := user.request("POST", "/auth", USER)) != 200:
        raise Failure(f"sign-in failed: status {status}")
    for path in ("/episodes", "/videos/1", "/videos/2", "/user", "/auth", "/auth/sessions"):
        user.request("GET", path)
    anonymous.request("GET", "/videos/1")
    anonymous.request("GET", "/nothing-here")
    anonymous.request("POST", "/episodes", {})
    anonymous.request("GET", "/episodes%00")
    return user


def log_in(port):
    """Signs in at the OpenID Provider, and requests a page for which a token is exchanged. Returns the callback."""
    gateway = f"https://127.0.0.1:{port}"
    callback = begin_login(gateway)
    request(f"{gateway}/videos/1", headers={"Cookie": complete_login(callback)}, timeout=30)
    return callback


def fail_login(port):
    """Logs in twice with one callback, and sends a logout that the provider has not sent."""
    callback = log_in(port)
    request(callback.url, headers=callback.fields, timeout=30)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    request(f"https://127.0.0.1:{port}/auth/backchannel", "POST", form, "logout_token=forged", timeout=30)


def fail_sign_ins(port):
    """Sends sign-ins that fail. Five failures would throttle later sign-ins."""
    client = Client(port)
    client.request("POST", "/auth", {**USER, "password": "wrong"})
    client.request("POST", "/auth", {"email": "invalid", "password": "x"})


def keep_requesting(clients, seconds, until=lambda: True):
    """All clients request videos for at least `seconds` and until the condition is true. Tokens are refreshed meanwhile."""
    start = time.monotonic()
    while (elapsed := time.monotonic() - start) < seconds or not until():
        if elapsed > 120:
            raise Failure("Prometheus did not scrape the gateways within 120 s")
        for client in clients:
            client.request("GET", "/videos/1")
            client.request("GET", "/episodes")
        time.sleep(0.1)


def request_until_scraped(prometheus, clients, seconds):
    """Keeps requesting until Prometheus has scraped every gateway three times: a rate requires two samples."""
    start = time.time()

    def is_scraped():
        scrapes = prometheus.numbers('min(sum_over_time(up{job="cloakroom"}[%ds]))' % (time.time() - start))
        return scrapes and scrapes[0] >= 3

    keep_requesting(clients, seconds, is_scraped)


def exercise(processes, prometheus, ports):
    """Causes every event that is counted, an outage of the API and of the session store included. Returns the clients
    that are signed in."""
    for port in ports:
        for _ in range(3):
            fail_sign_ins(port)
    for port in ports:
        fail_login(port)
    clients = [visit(port) for _ in range(3) for port in ports]
    request_until_scraped(prometheus, clients, 4)
    for name in ("compose", "systemd"):
        processes[name].signal(signal.SIGHUP)
    for port in ports:
        fail_sign_ins(port)
        fail_login(port)
        leaving = visit(port)
        leaving.request("DELETE", "/auth/sessions")
        leaving.request("DELETE", "/auth")
        clients = [client for client in clients if client.port != port] + [visit(port)]
    request_until_scraped(prometheus, clients, 5)
    processes["api"].stop()
    for port in ports:
        Client(port).request("POST", "/auth", USER)
    request_until_scraped(prometheus, clients, 3)
    processes["redis"].stop()
    request_until_scraped(prometheus, clients, 3)
    return clients
