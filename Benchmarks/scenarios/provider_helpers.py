"""The mock OpenID Provider, gateways whose users sign in at it, and their logins."""

import json
import signal
import sys
import urllib.parse

from harness.gateway import demo_program
from harness.http import begin_login, complete_login, request
from harness.ports import free_port, free_ports
from harness.process import wait_until
from scenarios import session_helpers
from trials.panel import Panel

CLIENT = {"id": "cloakroom", "secret": "cloakroom-client-secret"}
ENDPOINTS = {
    "authorization_endpoint": "/authorize",
    "token_endpoint": "/token",
    "jwks_uri": "/jwks",
    "userinfo_endpoint": "/userinfo",
    "revocation_endpoint": "/revoke",
    "end_session_endpoint": "/end_session",
    "pushed_authorization_request_endpoint": "/par",
}


class Provider:
    """A running mock provider, which the test controls. Access tokens expire after `lifetime` seconds."""

    def __init__(self, environment, lifetime):
        self.environment, self.port = environment, free_port()
        command = [demo_program(environment.binary), "mock-provider", "--port", str(self.port), "--expose-control"]
        environment.start("provider", [*command, "--access-token-lifetime", str(lifetime)], self.port)
        self.issuer = f"http://127.0.0.1:{self.port}"
        self.base = {}

    def control(self, method, path, body=None):
        _, _, text = request(f"http://127.0.0.1:{self.port}/__mock/{path}", method, body=body)
        return json.loads(text) if text else None

    def script(self, **changes):
        """Replaces the script: that of a correct provider with these changes."""
        self.control("PUT", "script", json.dumps({**self.base, **changes}))

    def rotate(self):
        self.control("POST", "rotate?keep=true")

    def last_login(self):
        """`sub` and `sid` of the last sign-in."""
        return self.control("GET", "logins")[-1]

    def send_logout(self, url, **claims):
        """Sends a logout token for `sub` or `sid`. Returns the status of the response."""
        body = urllib.parse.urlencode(
            {"logout_token": self.control("GET", "logout-token?" + urllib.parse.urlencode(claims))["token"]}
        )
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        return request(url, "POST", headers=form, body=body)[0]

    def token_calls(self):
        """The numbers of refreshes, and of all other successful or rejected calls of the token endpoint."""
        seen = self.control("GET", "requests")
        return seen["refreshes"], seen["counts"].get("POST /token", 0) - seen["refreshes"]


class FrontedProvider(Provider):
    """A provider behind a process of its own with TLS, which can be frozen, killed and restarted: a provider that has its
    sessions in a database, so that they survive it."""

    def __init__(self, environment, lifetime):
        super().__init__(environment, lifetime)
        self.front_port, self.panel = free_port(), environment.folder / f"panel-{self.port}"
        Panel(self.panel, create=True)
        self.issuer = f"https://localhost:{self.front_port}"
        issuer = json.dumps(self.issuer)
        endpoints = {name: json.dumps(self.issuer + path) for name, path in ENDPOINTS.items()}
        self.base = {
            "discovery": {"set": {"issuer": issuer, **endpoints}},
            "idToken": {"claims": {"set": {"iss": issuer}}},
            "callback": {"set": {"iss": self.issuer}},
        }
        self.script()
        self.start()

    def start(self):
        folder = self.environment.folder
        arguments = [str(self.front_port), str(self.port), str(self.panel)]
        files = [str(folder / "certificate.pem"), str(folder / "key.pem")]
        self.front = self.environment.start_module("trials.relay", *arguments, *files, port=self.front_port)

    def freeze(self):
        self.front.signal(signal.SIGSTOP)

    def thaw(self):
        self.front.signal(signal.SIGCONT)

    def kill(self):
        self.front.signal(signal.SIGKILL)
        self.front.process.wait(10)


def route(name, path, upstream, *inject, **more):
    requires = {"requiresAuthorization": True, "inject": list(inject)}
    return {"name": name, "methods": ["GET"], "path": path, "upstream": upstream, **requires, **more}


def gateway(environment, provider, origin_port, routes, identity=None, upstreams=(), session=None, **changes):
    """Starts a gateway whose users sign in at the provider. `upstreams` are names of further ones at the same origin."""
    ports = free_ports(3)
    origin = {"targets": [f"http://127.0.0.1:{origin_port}"]}
    company = {"issuer": provider.issuer, "client": CLIENT, "tokensFor": ["api"], **(identity or {})}
    if provider.issuer.startswith("https"):
        company["tls"] = {"caFile": str(environment.folder / "certificate.pem")}
    accounts = {"publicURL": f"http://127.0.0.1:{ports[0]}", "throttle": False, "login": {"returnTo": "/bystander/0"}}
    started = environment.gateway(
        ports=ports,
        warm_up=False,
        identities={"company": company},
        upstreams={name: origin for name in ("api", *upstreams)} | changes.pop("more_upstreams", {}),
        session={
            "cookie": {"name": "cloakroom", "secure": False},
            "secrets": [session_helpers.SECRET],
            **(session or {}),
        },
        accounts=accounts,
        routes=[*routes, {
            "name": "bystander", "methods": ["GET"], "path": "/bystander/{number}", "upstream": "bystander",
            "requiresAuthorization": False,
        }],
        **changes,
    )  # fmt: skip
    started.url = accounts["publicURL"]
    # The provider's documents are fetched in the background.
    wait_until("the provider is known", 20, lambda: _is_known(started))
    return started


def _is_known(gateway):
    status, _, _ = request(f"{gateway.url}/auth/login", headers={"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"})
    return status == 303


def log_in(gateway):
    """Signs in at the provider and returns the cookie, as a field line."""
    return f"Cookie: {complete_login(begin_login(gateway.url))}\r\n"


def audience_origin(environment):
    """Starts an upstream that accepts tokens for its audience until their end. Returns its port."""
    port = free_port()
    environment.start_module("scenarios.audience_origin", str(port), port=port)
    return port


def seen(origin_port):
    """What the upstream has seen, by path."""
    return json.loads(request(f"http://127.0.0.1:{origin_port}/seen")[2])
