"""What operations on sessions cost: CPU time of gateway and server, bytes between them, and memory.

Each figure is that of many operations in a row with a gateway of its own, which has one event loop. CPU time is that of
the process, from /proc; the bytes are those that the server counts.
"""

import concurrent.futures
import dataclasses
import time

from harness.command import Failure
from harness.measure import precise_cpu_seconds
from harness.ports import free_port
from scenarios import provider_helpers, session_helpers
from sizing.clients import Load, api_request, cookie_of, sign_in_request, sign_out_request

# The lengths of the tokens of a session with a password, as in memory.py.
ACCESS_BYTES, REFRESH_BYTES = 400, 43
# Longer than the interval at which the gateway releases caches and returns memory.
QUIET_SECONDS = 7
# The minimum time from tokens to their refresh that is due to their expiry, and a margin.
REFRESH_SECONDS = 32
# Uses are recorded after an eighth of this: two seconds.
SHORT_IDLE_SECONDS = 16
TOUCH_SECONDS = 15
IDLE_SECONDS = 2
WARM_UP = 500
LOGINS = 300
LOGIN_THREADS = 8
EXPIRES_IN = {"expiresIn": "expiresIn"}
# Attempts are counted as usual, and without a limit: sign-ins come from few addresses.
ACCOUNTS = {"throttle": True, "signInsPerAddress": 0}


@dataclasses.dataclass
class Cost:
    """Per operation: microseconds of CPU time, and bytes that the server receives and sends."""

    gateway: float
    server: float
    received: float
    sent: float

    def less(self, other, times=1):
        """Without what is not part of the operation."""
        ours, theirs = dataclasses.astuple(self), dataclasses.astuple(other)
        return Cost(*(max(0, mine - times * its) for mine, its in zip(ours, theirs)))

    def rounded(self):
        names = {"gateway": "gatewayMicroseconds", "server": "serverMicroseconds"}
        names |= {"received": "bytesToServer", "sent": "bytesFromServer"}
        return {name: round(getattr(self, field), 1) for field, name in names.items()}


class Meter:
    """Adds up what gateways and servers do while a block runs, without what they do each second when idle."""

    def __init__(self, gateways, shards):
        self.gateways, self.shards = gateways, shards
        before = self.read()
        time.sleep(IDLE_SECONDS)
        self.idle = [(after - first) / IDLE_SECONDS for after, first in zip(self.read(), before)]

    def read(self):
        cpu = sum(precise_cpu_seconds(gateway.pid) for gateway in self.gateways)
        return (cpu, *self.shards.figures())

    def __enter__(self):
        self.before, self.started = self.read(), time.monotonic()
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.seconds = time.monotonic() - self.started
            self.total = Cost(*(after - before for after, before in zip(self.read(), self.before)))
            self.total = self.total.less(Cost(*self.idle), self.seconds)

    def each(self, count):
        total = self.total
        return Cost(
            total.gateway * 1e6 / count, total.server * 1e6 / count, total.received / count, total.sent / count
        )


class Costs:
    """Measures the costs of all operations with one server."""

    def __init__(self, environment, shards, sessions):
        self.environment, self.shards, self.sessions = environment, shards, sessions
        self.origin = start_origin(environment)
        self.results = {}

    def keep(self, name, cost):
        self.results[name] = cost
        print(f"  {name:15} " + ", ".join(f"{key} {value:,}" for key, value in cost.rounded().items()), flush=True)

    def gateway(self, origin=None, **session):
        return start_gateway(self.environment, self.shards, origin or self.origin, **session)

    def measure(self):
        """Measures everything. Returns the costs by operation, bytes of a gateway without sessions, and per session."""
        self.server_bytes = self.shards.resident()
        cookies = self.sign_ins()
        local = self.look_ups(cookies)
        self.touches()
        self.sign_outs(cookies)
        self.refreshes()
        self.logins()
        return {name: cost.rounded() for name, cost in self.results.items()}, self.gateway_bytes, local

    def sign_ins(self):
        gateway = self.gateway()
        cookies, _ = sign_in_all(gateway, 1, WARM_UP)
        more, cost = sign_in_all(gateway, WARM_UP + 1, self.sessions, self.shards)
        self.keep("signIn", cost)
        gateway.stop()
        return cookies + more

    def look_ups(self, cookies):
        """Requests whose session is not cached, and then the same ones with it cached. Returns the bytes of resident
        memory per cached session."""
        gateway = self.gateway()
        self.gateway_bytes = gateway.resident()
        self.requests(gateway, cookies[:WARM_UP] * 4)
        time.sleep(QUIET_SECONDS)
        before, rest = gateway.resident(), cookies[WARM_UP:]
        first = self.requests(gateway, rest)
        time.sleep(QUIET_SECONDS)
        local = (gateway.resident() - before) / len(rest)
        cached = self.requests(gateway, rest)
        self.keep("request", Cost(cached.gateway, 0, 0, 0))
        self.keep("lookUp", first.less(cached))
        gateway.stop()
        return local

    def requests(self, gateway, cookies, path=b"/videos/1"):
        with Load([gateway]) as load, Meter([gateway], self.shards) as meter:
            load.run((0, api_request(cookie, path), None) for cookie in cookies)
        return meter.each(len(cookies))

    def touches(self):
        """Requests of sessions with a short idle timeout, of which many are recorded as uses."""
        gateway = self.gateway(idleTimeout=f"{SHORT_IDLE_SECONDS}s")
        cookies, _ = sign_in_all(gateway, 1, 2_000)
        self.requests(gateway, cookies)
        server = self.shards.servers[0]
        before, count = server.calls("evalsha"), 0
        with Load([gateway]) as load, Meter([gateway], self.shards) as meter:
            end = time.monotonic() + TOUCH_SECONDS
            while time.monotonic() < end:
                count += load.run((0, api_request(cookie), None) for cookie in cookies)
            # Uses are written each second.
            time.sleep(1.5)
        touches = server.calls("evalsha") - before
        if touches < len(cookies):
            raise Failure(f"{touches} uses of {len(cookies)} sessions were recorded")
        self.keep("touch", meter.each(touches).less(self.results["request"], count / touches))
        gateway.stop()

    def sign_outs(self, cookies):
        gateway = self.gateway()
        with Load([gateway]) as load:
            load.run((0, sign_out_request(cookie), None) for cookie in cookies[:WARM_UP])
            some = cookies[WARM_UP : WARM_UP + 5_000]
            with Meter([gateway], self.shards) as meter:
                load.run((0, sign_out_request(cookie), None) for cookie in some)
        self.keep("signOut", meter.each(len(some)))
        gateway.stop()

    def refreshes(self):
        origin = start_origin(self.environment, 30)
        gateway = self.gateway(origin)
        cookies, _ = sign_in_all(gateway, 1, 3_000)
        self.requests(gateway, cookies)
        time.sleep(REFRESH_SECONDS)
        before = gateway.metric("cloakroom_token_refreshes_total", outcome="success")
        whole = self.requests(gateway, cookies)
        done = gateway.metric("cloakroom_token_refreshes_total", outcome="success") - before
        if abs(done - len(cookies)) > len(cookies) / 100:
            raise Failure(f"{done:.0f} of {len(cookies)} sessions were refreshed")
        self.keep("refresh", whole.less(self.results["request"]))
        gateway.stop()

    def logins(self):
        """Logins at a provider. Each is followed by a sign-out, because all are of one user."""
        provider = provider_helpers.Provider(self.environment, 3_600)
        gateway = start_provider_gateway(self.environment, self.shards, provider, self.origin)
        log_in_and_out = lambda _: session_helpers.sign_out(gateway.port, provider_helpers.log_in(gateway))  # noqa: E731
        with concurrent.futures.ThreadPoolExecutor(LOGIN_THREADS) as threads:
            for count in (LOGINS // 5, LOGINS):
                with Meter([gateway], self.shards) as meter:
                    statuses = set(threads.map(log_in_and_out, range(count)))
        if not statuses <= {200, 204, 303}:
            raise Failure(f"sign-outs have the statuses {sorted(statuses)}")
        self.keep("login", meter.each(count).less(self.results["signOut"]))
        cookies = [cookie_value(gateway) for _ in range(LOGINS)]
        gateway.stop()
        other = start_provider_gateway(self.environment, self.shards, provider, self.origin)
        self.requests(other, cookies[: LOGINS // 5] * 5, b"/api/1")
        rest = cookies[LOGINS // 5 :]
        first, cached = self.requests(other, rest, b"/api/1"), self.requests(other, rest, b"/api/1")
        self.keep("providerLookUp", first.less(cached))
        other.stop()


def cookie_value(gateway):
    """The cookie of a new login at the provider, as `name=value`."""
    return provider_helpers.log_in(gateway).removeprefix("Cookie: ").strip().encode()


def sign_in_all(gateway, first, last, shards=None):
    """Signs in the users with these numbers. Returns their cookies and, with shards, the cost of each sign-in."""
    cookies = []
    jobs = ((0, sign_in_request(number), lambda head: cookies.append(cookie_of(head))) for number in range(first, last + 1))
    with Load([gateway]) as load:
        if shards is None:
            load.run(jobs)
            return cookies, None
        with Meter([gateway], shards) as meter:
            load.run(jobs)
    return cookies, meter.each(len(cookies))


def start_origin(environment, lifetime=None):
    port = free_port()
    settings = [str(ACCESS_BYTES), str(REFRESH_BYTES), *([str(lifetime)] if lifetime else [])]
    environment.start_module("scenarios.sign_in_origin", str(port), *settings, port=port)
    return port


def valkey(shards, session):
    addresses = [f"127.0.0.1:{server.port}" for server in shards.servers]
    return {"store": "valkey", "valkey": {"addresses": addresses}, "cacheSize": 1_000_000, **session}


def start_gateway(environment, shards, origin, user=None, **session):
    """A gateway with one event loop whose users sign in with passwords."""
    return session_helpers.gateway(environment, origin, valkey(shards, session), EXPIRES_IN, user, ACCOUNTS, eventLoops=1)


def start_provider_gateway(environment, shards, provider, origin, **session):
    """A gateway with one event loop whose users sign in at a provider. All of them have the same account."""
    session = {"maxSessionsPerAccount": 10_000, **session}
    routes = [provider_helpers.route("api", "/api/{number}", "api", "bearer")]
    return provider_helpers.gateway(
        environment, provider, origin, routes, {"pushed": "never"}, session=valkey(shards, session), eventLoops=1
    )
