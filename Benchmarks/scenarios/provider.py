"""An OpenID Provider that is frozen, killed, slow, or rotates its keys each second, while its users send requests."""

import collections
import contextlib
import json
import math
import statistics
import threading
import time

from harness.command import Failure
from harness.http import LoginFailed, begin_login, complete_login, request
from harness.measure import MIB
from harness.process import wait_until
from scenarios import http1, provider_helpers, session_helpers
from trials.panel import Panel

USERS = 10
PAUSE = 0.2
# How long no requests are sent before a trouble begins.
QUIET_SECONDS = 0.3
# Seconds. Tokens end within each phase; a call of the slow provider takes less than its timeout.
LIFETIME = 4
SLOW = 5
# The back-off after failed refreshes is 30 s at most.
RECOVERY = 35
BYSTANDER_RATE = 200
BYSTANDER_DELAY_US = 5_000
MEMORY_LIMIT = 8 * MIB
# What a request that needs the provider may get meanwhile: unreachable, backed off, timed out.
UNAVAILABLE = {502, 503, 504}


def run(environment, checks, options):
    provider = provider_helpers.FrontedProvider(environment, LIFETIME)
    seconds, rounds = options.provider_seconds, options.provider_rounds
    provider.delay = min(SLOW, seconds)
    gateway = start_gateway(environment, provider)
    troubles = {"frozen": frozen, "killed": killed, "slow": slow, "rotating": rotating}
    with contextlib.ExitStack() as stack:
        users = stack.enter_context(Users(gateway))
        bystander = stack.enter_context(Bystander(environment, gateway))
        phases = Phases(gateway, users, seconds)
        phases.quiet(warm_up=True)
        for number in range(rounds):
            for name, trouble in troubles.items():
                phases.quiet()
                phases.trouble(name, trouble, provider)
                # The keys that the gateway has are fetched again 30 s after the last early fetch.
                if name != "rotating" or number + 1 < rounds:
                    phases.recover(name)
        phases.quiet(has_login=False)
        users.over.set()
        records = bystander.records()
    report_users(checks, users, phases)
    report_logins(checks, phases, troubles)
    report_bystander(checks, records, phases, troubles, 1.2 * options.slack)
    report_memory(checks, phases)
    checks.expect("no call repeats a spent refresh token", provider.control("GET", "requests")["reuseDetections"] == 0)


def start_gateway(environment, provider):
    """A gateway with users of the provider, users with a password, and a public route, each with an upstream of its own."""
    mock = session_helpers.mock(environment, 3_600)
    port, file = provider_helpers.free_port(), environment.folder / "panel-bystander"
    panel = Panel(file, create=True)
    panel.delay = BYSTANDER_DELAY_US
    environment.start_module("trials.origin", "bystander", str(port), str(file), port=port)
    calls = {name: {"path": f"/auth/{name}"} for name in ("refresh", "revoke")}
    password = {
        "targets": [f"http://127.0.0.1:{mock}"],
        "apiToken": {"value": session_helpers.TOKEN},
        "signIn": {"path": "/auth"},
        "user": {"path": "/user"},
        **calls,
    }
    gateway = provider_helpers.gateway(
        environment,
        provider,
        provider_helpers.audience_origin(environment),
        [
            provider_helpers.route("api", "/api/{number}", "api", "bearer"),
            provider_helpers.route("plain", "/plain/{number}", "api"),
            provider_helpers.route("video", "/videos/{id}", "password", "apiToken", "bearer"),
        ],
        more_upstreams={"password": password, "bystander": {"targets": [f"http://127.0.0.1:{port}"]}},
        timeouts={"identity": f"{provider.delay + 2}s"},
    )
    return gateway


# -- Trouble


@contextlib.contextmanager
def frozen(provider):
    provider.freeze()
    try:
        yield
    finally:
        provider.thaw()


@contextlib.contextmanager
def killed(provider):
    provider.kill()
    yield
    provider.start()


@contextlib.contextmanager
def slow(provider):
    provider.script(faults={name: [{"delay": provider.delay}] for name in ("discovery", "keys", "pushed", "code", "refresh")})
    yield
    provider.script()


@contextlib.contextmanager
def rotating(provider):
    over = threading.Event()

    def rotate():
        while not over.wait(1):
            provider.rotate()

    thread = threading.Thread(target=rotate, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Phases:
    """The course of the scenario: which phase was when, and the outcomes of logins in it."""

    def __init__(self, gateway, users, seconds):
        self.gateway, self.users, self.seconds = gateway, users, seconds
        self.spans, self.memory, self.recoveries = [], [], []
        self.logins = collections.defaultdict(collections.Counter)
        self.durations = collections.defaultdict(list)

    @contextlib.contextmanager
    def phase(self, name):
        self.users.phase = name
        start = time.monotonic()
        yield start + self.seconds
        self.spans.append((name, start, time.monotonic()))
        self.memory.append((name, self.gateway.resident()))

    def quiet(self, warm_up=False, has_login=True):
        with self.phase("warm-up" if warm_up else "quiet") as end:
            if has_login:
                self.log_in("quiet")
            time.sleep(max(0, end - time.monotonic()))

    def trouble(self, name, trouble, provider):
        # This browser comes back from the provider after the trouble has begun.
        callback = begin_login(self.gateway.url)
        returning = threading.Thread(target=self.note, args=(name, "callback", lambda: complete_login(callback)))
        with self.phase(name) as end:
            # The provider rotates refresh tokens: if it spends one whose response is lost, it ends the session, whatever
            # its client does. So no refresh is in flight when the trouble begins.
            self.users.paused.set()
            time.sleep(QUIET_SECONDS)
            with trouble(provider):
                self.users.paused.clear()
                returning.start()
                while time.monotonic() < end:
                    self.log_in(name)
                    time.sleep(0.2)
                returning.join()

    def recover(self, name):
        """Waits until all works again. Not part of a phase: sessions whose refresh failed are in back-off."""
        self.users.phase = "recovery"
        start = time.monotonic()
        with contextlib.suppress(Failure):
            wait_until("logins work", RECOVERY, lambda: self.log_in("after"))
            wait_until("all sessions work", RECOVERY, self.users.are_served)
        self.recoveries.append((name, time.monotonic() - start))

    def log_in(self, name):
        return self.note(name, "login", lambda: provider_helpers.log_in(self.gateway))

    def note(self, name, what, work):
        """Counts the outcome. Returns whether it is a session."""
        start = time.monotonic()
        try:
            work()
            status = "signed in"
        except LoginFailed as failure:
            status = failure.status
        except OSError as error:
            # The provider itself, to which the browser was sent.
            status = type(error).__name__
        self.logins[name, what][status] += 1
        self.durations[name, what].append(time.monotonic() - start)
        return status == "signed in"


class Users(session_helpers.ClientThreads):
    """Users of the provider, each with requests that need its access token and, on another connection, requests that do
    not; and a user with a password. Counts the statuses by phase and kind."""

    def __init__(self, gateway):
        super().__init__()
        self.gateway, self.phase = gateway, "warm-up"
        self.paused = threading.Event()
        self.statuses = collections.defaultdict(collections.Counter)
        self.slowest = collections.Counter()
        self.samples = []
        self.last = {}
        password = session_helpers.sign_in(gateway.port)
        work = [("password", 0, password, ["/videos/1"])]
        for number in range(USERS):
            cookie = provider_helpers.log_in(gateway)
            work.append(("token", number, cookie, [f"/api/{number}"]))
            work.append(("no token", number, cookie, [f"/plain/{number}", "/auth"]))
            # Tokens end at different times.
            time.sleep(LIFETIME / USERS)
        self.threads = [threading.Thread(target=self.send_requests, args=one, daemon=True) for one in work]

    def send_requests(self, kind, number, cookie, targets):
        client, count = None, 0
        while not self.over.wait(PAUSE):
            if self.paused.is_set():
                continue
            phase, start = self.phase, time.monotonic()
            count += 1
            try:
                client = client or http1.Client(self.gateway.port, timeout=30)
                body = client.get(targets[count % len(targets)], cookie)
                status = client.status
                if not client.persists:
                    client.socket.close()
                    client = None
                if status != 200 and status not in UNAVAILABLE and len(self.samples) < 10:
                    self.samples.append(f"{phase}, {kind}: {status} {body[:200]!r}")
            except (OSError, http1.Closed, http1.Truncated, http1.Malformed) as error:
                status, client = type(error).__name__, None
            self.statuses[phase, kind][status] += 1
            self.slowest[phase, kind] = max(self.slowest[phase, kind], time.monotonic() - start)
            self.last[kind, number] = status, start

    def are_served(self):
        """Whether the last response of each is 200, and not from before."""
        recent = time.monotonic() - 2
        return all(status == 200 and start > recent for status, start in self.last.values())


class Bystander:
    """An open loop of requests of a public route, whose upstream has nothing to do with the provider."""

    def __init__(self, environment, gateway):
        self.file = environment.folder / "bystander.json"
        # It ends with the scenario, long before an hour.
        arguments = [gateway.port, BYSTANDER_RATE, 3_600, 20, 5, "/bystander/1", self.file]
        self.process = environment.start_module("trials.generator", *map(str, arguments), port=None)
        self.start = float(wait_until("the load", 20, lambda: self.process.output().strip()))

    def records(self):
        """Pairs of when a request was due, in monotonic seconds, and its latency in ms; infinite unless it is 200."""
        self.process.stop()
        records = json.loads(self.file.read_text())
        rows = zip(records["due"], records["latency"], records["status"])
        return [(self.start + due, latency if status == 200 else math.inf) for due, latency, status in rows]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stop()


# -- Results


def format_counts(counts):
    return ", ".join(f"{count} × {what}" for what, count in sorted(counts.items(), key=str)) or "none"


def report_users(checks, users, phases):
    for sample in users.samples:
        checks.note(sample)
    for (phase, kind), counts in sorted(users.statuses.items()):
        checks.note(f"{phase}, {kind}: {format_counts(counts)}, slowest {users.slowest[phase, kind]:.2f} s")
    total = collections.defaultdict(collections.Counter)
    for (_, kind), counts in users.statuses.items():
        total[kind].update(counts)
    for kind, statement in (
        ("no token", "requests that need no token of the provider are all 200"),
        ("password", "requests of a user with a password are all 200"),
    ):
        checks.expect(statement, set(total[kind]) == {200}, format_counts(total[kind]))
    statement = f"no user is signed out: requests that need a token are 200 or one of {sorted(UNAVAILABLE)}"
    checks.expect(statement, set(total["token"]) <= {200, *UNAVAILABLE}, format_counts(total["token"]))
    for phase in ("quiet", "rotating", "slow"):
        counts = users.statuses[phase, "token"]
        checks.expect(f"{phase}: they are all 200", set(counts) == {200}, format_counts(counts))
    for name, seconds in phases.recoveries:
        checks.note(f"all sessions and logins work {seconds:.1f} s after {name}")
    checks.expect(f"within {RECOVERY} s after each trouble all work", all(s < RECOVERY for _, s in phases.recoveries))


def report_logins(checks, phases, troubles):
    for (phase, what), counts in phases.logins.items():
        longest = max(phases.durations[phase, what])
        checks.note(f"{phase}, {what}: {format_counts(counts)}, at most {longest:.1f} s")
    for phase in ("frozen", "killed"):
        for what in ("login", "callback"):
            counts = phases.logins[phase, what]
            checks.expect(f"{phase}: each {what} is 503", set(counts) == {503}, format_counts(counts))
    for phase in ("slow", "quiet"):
        counts = phases.logins[phase, "login"]
        checks.expect(f"{phase}: logins work", set(counts) == {"signed in"}, format_counts(counts))
    # An unknown key is fetched once in 30 s, so that later logins fail until then.
    counts = phases.logins["rotating", "login"]
    checks.expect("rotating: logins work or are 502", set(counts) <= {"signed in", 502}, format_counts(counts))


def percentile(values, share):
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)] if values else math.inf


def report_bystander(checks, records, phases, troubles, limit):
    figures = collections.defaultdict(list)
    for name, start, end in phases.spans:
        latencies = [latency for due, latency in records if start <= due < end]
        figures[name].append(percentile(latencies, 0.99))
    failed = sum(latency == math.inf for _, latency in records)
    checks.expect("another route: no request fails", failed == 0, f"{failed} of {len(records)}")
    quiet = statistics.median(figures["quiet"])
    checks.note(f"another route, p99 in ms, quiet: {', '.join(f'{value:.1f}' for value in figures['quiet'])}")
    for name in troubles:
        middle = statistics.median(figures[name])
        shown = f"{', '.join(f'{value:.1f}' for value in figures[name])} ms: {middle / quiet:.2f} times"
        checks.expect(f"another route, {name}: p99 within {limit:.2g} times that of quiet phases", middle <= limit * quiet, shown)


def report_memory(checks, phases):
    checks.note("resident memory in MiB: " + ", ".join(f"{name} {size / MIB:.1f}" for name, size in phases.memory))
    base = next(size for name, size in phases.memory if name == "quiet")
    growth = max(size for _, size in phases.memory) - base
    checks.expect(f"resident memory grows by less than {MEMORY_LIMIT // MIB} MiB", growth < MEMORY_LIMIT, f"{growth / MIB:.1f} MiB")
