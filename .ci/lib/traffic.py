"""People who use gateways: what they ask, how often, and what happens to them meanwhile."""

import http.client
import json
import signal
import ssl
import time

from running import NAME


class Client:
    """Somebody with a browser: keeps a cookie, looks at no certificate."""

    def __init__(self, port):
        self.port = port
        self.cookie = None

    def ask(self, method, path, body=None, fields=()):
        context = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=context)
        headers = dict(fields)
        if self.cookie:
            headers["Cookie"] = self.cookie
        if body is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(body)
        try:
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            answer.read()
            if given := answer.getheader("Set-Cookie"):
                self.cookie = given.split(";")[0]
            return answer.status
        finally:
            connection.close()


def use(port):
    """Signs in and looks at everything; others try what they may not. Who signed in comes back."""
    jo, stranger = Client(port), Client(port)
    if (status := jo.ask("POST", "/auth", {"email": "jo@example.com", "password": "secret"})) != 200:
        raise SystemExit(f"{NAME}: signing in is answered with {status}")
    for path in ("/episodes", "/videos/1", "/videos/2", "/user", "/auth", "/auth/sessions"):
        jo.ask("GET", path)
    stranger.ask("GET", "/videos/1")
    stranger.ask("GET", "/nothing-here")
    stranger.ask("POST", "/episodes", {})
    stranger.ask("GET", "/episodes%00")
    return jo


def use_once(port):
    """Attempts to sign in that fail. Five of them would throttle those that follow."""
    stranger = Client(port)
    stranger.ask("POST", "/auth", {"email": "jo@example.com", "password": "wrong"})
    stranger.ask("POST", "/auth", {"email": "nobody", "password": "x"})


def carry_on(people, seconds, until=lambda: True):
    """Everybody watches videos, for so long at least, and then until something is so; tokens have to be renewed meanwhile."""
    begun = time.monotonic()
    while (gone := time.monotonic() - begun) < seconds or not until():
        if gone > 120:
            raise SystemExit(f"{NAME}: nothing comes of it within two minutes")
        for person in people:
            person.ask("GET", "/videos/1")
            person.ask("GET", "/episodes")
        time.sleep(0.1)


def go_on(prometheus, people, seconds):
    """Everybody carries on until Prometheus has seen both gateways a few times meanwhile: a rate takes two looks."""
    begun = time.time()

    def is_seen():
        seen = prometheus.numbers('min(sum_over_time(up{job="cloakroom"}[%ds]))' % (time.time() - begun))
        return seen and seen[0] >= 3

    carry_on(people, seconds, is_seen)


def play(run, prometheus, ports):
    """Brings everything about that is counted. The people who are left at the end come back."""
    for port in ports:
        for _ in range(3):
            use_once(port)
    people = [use(port) for _ in range(3) for port in ports]
    go_on(prometheus, people, 4)
    for name in ("compose", "systemd"):
        run.signal(name, signal.SIGHUP)
    for port in ports:
        use_once(port)
        leaving = use(port)
        leaving.ask("DELETE", "/auth/sessions")
        leaving.ask("DELETE", "/auth")
        people = [person for person in people if person.port != port] + [use(port)]
    go_on(prometheus, people, 5)
    run.stop("api")
    for port in ports:
        Client(port).ask("POST", "/auth", {"email": "jo@example.com", "password": "secret"})
    go_on(prometheus, people, 3)
    run.stop("redis")
    go_on(prometheus, people, 3)
    return people
