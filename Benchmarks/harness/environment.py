"""Work folder, certificate, upstream and gateways: of a benchmark, and of an endurance or parser test."""

import contextlib
import copy
import http.client
import pathlib
import re
import secrets
import shlex
import shutil
import sys
import tempfile

from harness import gateway as gateways
from harness.command import Failure
from harness.http import begin_login, complete_login, request, sign_in
from harness.ports import free_ports
from harness.process import Process, ProcessGroup, allow_many_files, wait_until
from harness.valkey import SLOTS, Node
from scenarios.credentials import bound_session

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent
BASELINES = BENCHMARKS / "baselines"


class Environment:
    """A work folder with a certificate, and the processes that run in it. Both end with the block."""

    def __enter__(self):
        allow_many_files()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cloakroom-"))
        self.processes = ProcessGroup(self.folder)
        try:
            # nginx's workers drop root and need access.
            self.folder.chmod(0o755)
            gateways.make_certificate(self.folder)
            self.start_upstreams()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.processes.stop_all()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, name, command, port, **options):
        """Starts a process that listens on a port."""
        return self.processes.start(name, command, port, **options)

    def start_module(self, module, *arguments, port, **options):
        """Starts a Python module below Benchmarks/."""
        environment = {"PYTHONPATH": str(BENCHMARKS), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", module, *arguments]
        return self.start(module.rpartition(".")[2], command, port, environment=environment, **options)

    def fill(self, template, name=None, **values):
        """Copies a file of baselines/ into the work folder, by default under its name, with its @NAMES@ replaced."""
        values |= {"DIR": self.folder}
        text = (BASELINES / template).read_text()
        filled = self.folder / (name or template)
        filled.write_text(re.sub(r"@([A-Z_]+)@", lambda found: str(values[found[1]]), text))
        return filled


# Benchmarks


class MeasuredGateway:
    """A gateway under measurement, Cloakroom or a baseline: its command, ports and session cookie.

    CONFIG and WORKERS in its command and variables are replaced by the configuration file and the number of workers.
    """

    def __init__(self, environment, name, template, command, version, variables=None, sign_in=None):
        self.environment = environment
        self.name = name
        self.template = template
        self.pattern = command
        self.version = version
        self.variable_patterns = variables or {}
        self.sign_in = sign_in
        self.clear_port, self.tls_port, self.admin_port = free_ports(3)
        self.cookie = f"sid={environment.session_id}"
        self.configure(template)

    def configure(self, file, workers=1, options=(), **values):
        """Writes the configuration file and sets the command."""
        ports = {"CLEAR_PORT": self.clear_port, "TLS_PORT": self.tls_port, "ADMIN_PORT": self.admin_port}
        self.config = self.environment.fill(self.template, file, WORKERS=workers, **ports, **values)
        replace = lambda text: text.replace("CONFIG", str(self.config)).replace("WORKERS", str(workers))  # noqa: E731
        self.command = [*map(replace, shlex.split(self.pattern)), *options]
        self.variables = {name: replace(value) for name, value in self.variable_patterns.items()}

    def variant(self, name, **changes):
        """The same gateway with another configuration. It has the same ports, so only one of them can run at a time."""
        changed = copy.copy(self)
        changed.configure(f"{name}-{self.template}", **changes)
        return changed

    @property
    def log(self):
        return self.environment.folder / f"{self.name}.log"

    @contextlib.contextmanager
    def running(self, core, before=()):
        """Runs the gateway while the block runs. `before` precedes its command, for example `valgrind …`."""
        process = Process(self.name, [*before, *self.command], self.log, core, self.variables)
        try:
            process.wait_for_port(self.clear_port, seconds=120 if before else 20)
            process.wait_for_port(self.tls_port)
            self.process = process
            if self.sign_in:
                ready = f"http://127.0.0.1:{self.admin_port}/ready"
                wait_until(f"{self.name} is ready", 60, lambda: request(ready)[0] == 200)
                self.cookie = self.sign_in(f"http://127.0.0.1:{self.clear_port}")
            yield process
        finally:
            process.stop(seconds=120 if before else 20)

    def url(self, scheme, path):
        host, port = ("127.0.0.1", self.clear_port) if scheme == "http" else ("localhost", self.tls_port)
        return f"{scheme}://{host}:{port}{path}"


class BenchmarkEnvironment(Environment):
    """The upstream that all measured gateways forward to, and the secrets in their configurations."""

    def __init__(self, upstream_core=None):
        self.upstream_core = upstream_core
        self.session_id = secrets.token_urlsafe(32)
        self.access_token = secrets.token_urlsafe(36)
        self.refresh_token = secrets.token_urlsafe(36)
        self.api_token = secrets.token_urlsafe(12)
        self.upstream_port, self.provider_port = free_ports(2)

    def start_upstreams(self):
        (self.folder / "sessions.map").write_text(f"{self.session_id} {self.access_token}\n")
        (self.folder / "large").write_bytes(LARGE_BODY)
        config = self.fill("upstream.nginx.conf")
        self.start("upstream", ["nginx", "-c", config], self.upstream_port, core=self.upstream_core)

    def fill(self, template, name=None, **values):
        values = {
            "UPSTREAM_PORT": self.upstream_port,
            "PROVIDER_PORT": self.provider_port,
            "MORE_ROUTES": "",
            "MORE_LISTENERS": "",
            "SESSION_STORE": "",
            "COOKIE": "{ name: cloakroom, secure: false }",
            "BEHIND_TLS": "false",
            "SESSION_ID": self.session_id,
            "ACCESS_TOKEN": self.access_token,
            "REFRESH_TOKEN": self.refresh_token,
            "API_TOKEN": self.api_token,
            "VIDEO": video_document(),
            **values,
        }
        return super().fill(template, name, **values)

    def product(self, binary, template="cloakroom.yaml", sign_in=sign_in):
        command = f"{shlex.quote(str(gateways.require_binary(binary)))} serve --config CONFIG"
        version = gateways.version_of([str(binary), "--version"])
        return MeasuredGateway(self, "cloakroom", template, command, version, sign_in=sign_in)

    def product_with_provider(self, binary):
        """The gateway with a session of an OpenID Provider, which is the mock of cloakroom-demo."""
        # Tokens that need no refresh during a measurement.
        options = [f"--port={self.provider_port}", "--access-token-lifetime=86400", "--expose-control"]
        self.start("mock-provider", [gateways.demo_program(binary), "mock-provider", *options], self.provider_port)
        return self.product(binary, "cloakroom-provider.yaml", lambda url: complete_login(begin_login(url)))

    def product_with_devices(self, binary):
        """The gateway with a session that is bound to a key."""
        store = f"  secrets: [{secrets.token_urlsafe(36)}]\n  device: {{ mode: auto, settle: 0s }}"
        gateway = self.product(binary).variant("devices", SESSION_STORE=store, COOKIE="{}", BEHIND_TLS="true")
        gateway.sign_in = lambda url: bound_session(url, self.folder)
        return gateway

    def product_with_users(self, binary):
        """The gateway with an API of any number of users, whose access tokens expire after TOKEN_SECONDS."""
        (port,) = free_ports(1)
        lengths = len(self.access_token), len(self.refresh_token)
        self.start_module("scenarios.sign_in_origin", str(port), *map(str, lengths), str(TOKEN_SECONDS), port=port)
        accounts = "accounts: { signInsPerAddress: 0 }"
        return self.product(binary, sign_in=None).variant("users", UPSTREAM_PORT=port, SESSION_STORE=accounts)

    def product_with_functions(self, binary):
        """The gateway with routes that have response fields, and a rate limit by address, by account, and by session.

        Their paths are as long as that of the route without functions: each byte of a path costs 50 instructions.
        """
        routes = ""
        for name, keys in (
            ("fields", "responseFields: { preset: api, set: { X-Team: video } }"),
            ("places", "rate: [address]"),
            ("people", "rate: [account]"),
            ("visits", "rate: [session]"),
        ):
            routes += f"  - name: {name}\n    methods: [GET, POST]\n    path: /{name}/{{id}}\n"
            routes += f"    requiresAuthorization: true\n    inject: [apiToken, bearer]\n    {keys}\n"
        many = "requests: 1000000/s, burst: 100000"
        limits = ", ".join(f"{name}: {{ by: {name}, {many} }}" for name in ("address", "account", "session"))
        return self.product(binary).variant("functions", MORE_ROUTES=routes, SESSION_STORE=f"rateLimits: {{ {limits} }}")

    def product_that_decides(self, binary, proxy="traefik"):
        """The gateway with a listener that decides for another proxy, whose port is `decision_port`."""
        (port,) = free_ports(1)
        decides = f"{{ proxy: {proxy}, sources: [127.0.0.1], hosts: [app.test] }}"
        listener = f"  - address: 127.0.0.1:{port}\n    forwardAuth: {decides}"
        gateway = self.product(binary).variant("decides", MORE_LISTENERS=listener)
        gateway.decision_port = port
        return gateway

    def product_with_cluster(self, binary):
        """The gateway with a session in a Valkey cluster. One node, because a gateway asks each of them every second."""
        node = Node(self)
        node.ask("CLUSTER", "ADDSLOTSRANGE", 0, SLOTS - 1)
        wait_until("the cluster serves", 20, lambda: node.info("CLUSTER", "INFO")["cluster_state"] == "ok")
        valkey = f"{{ topology: cluster, addresses: [{node.host}:{node.port}] }}"
        store = f"  store: valkey\n  secrets: [{secrets.token_urlsafe(36)}]\n  valkey: {valkey}"
        return self.product(binary).variant("cluster", SESSION_STORE=store)


TOKEN_SECONDS = 1

LARGE_BODY = b"0123456789abcdef" * 6_400
"""The response body of 100 KiB."""


def video_document():
    """The response body of 650 bytes that is relayed."""
    start = '{"duration":279,"imageURL":"https://images.example.com/large.jpg",'
    start += '"videoURL":"https://videos.example.com/stream.m3u8","description":"'
    return start + "x" * (650 - len(start) - 2) + '"}'


# Tests


def first_response(port):
    """The status of a gateway's first response, or the error."""
    try:
        return request(f"http://127.0.0.1:{port}/warm-up", timeout=30)[0]
    except (OSError, http.client.HTTPException) as error:
        return repr(error)


class TestEnvironment(Environment):
    """Two origins, and gateways with a configuration per test."""

    def __init__(self, binary):
        self.binary = str(gateways.require_binary(binary))
        self.origin_port, self.bystander_port = free_ports(2)
        self.gateway_count = 0

    def start_upstreams(self):
        # The bystander client has an origin of its own, so that a delay of the first origin does not affect it.
        for port in (self.origin_port, self.bystander_port):
            self.start_module("scenarios.origin", str(port), port=port)

    def gateway(self, upstream_port=None, ports=None, warm_up=True, log=None, take_over=False, **changes):
        """Starts a gateway that forwards every request.

        `changes` are keys of its configuration, `log` is a pipe for its log. Without `warm_up` its first request
        may fail.
        """
        self.gateway_count += 1
        port, tls_port, admin_port = ports or free_ports(3)
        config = gateways.configuration(
            (port, tls_port, admin_port), self.folder, upstream_port or self.origin_port, self.bystander_port, changes
        )
        file = gateways.write_configuration(self.folder / f"gateway-{self.gateway_count}.yaml", config)
        command = [self.binary, "serve", "--config", str(file), *(["--take-over"] if take_over else [])]
        process = self.start("gateway", command, admin_port, log=log)
        process.wait_for_port(port)
        first = first_response(port)
        if warm_up and first != 200:
            raise Failure(f"the gateway's first response: {first}\n{process.last_lines()}")
        return gateways.Gateway(process, port, tls_port, admin_port)
