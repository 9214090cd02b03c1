"""People who use a gateway: what they ask, and how often."""

import http.client
import json
import ssl
import time


class Client:
    """Somebody with a browser: keeps a cookie, looks at no certificate."""

    def __init__(self, port):
        self.port = port
        self.cookie = None

    def ask(self, method, path, body=None, fields=()):
        context = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=context)
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
        raise SystemExit(f"queries: signing in is answered with {status}")
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


def carry_on(people, seconds):
    """Everybody watches videos; tokens have to be renewed meanwhile."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for person in people:
            person.ask("GET", "/videos/1")
            person.ask("GET", "/episodes")
        time.sleep(0.1)
