"""What operations on sessions cost: CPU time of gateway and server, bytes between them, and memory.

Each figure is that of many operations with a gateway of its own, which has one event loop, and a cluster of one primary
and its replica. CPU time is that of the process, from /proc; the bytes are those that the primary counts.

A process that is mostly idle needs more CPU time for the same work, because it reads few requests at once and has cold
caches. The share of a core for which it is busy was found to be a power of the share that the work would take at full
load, with an exponent of about 0.6. So the exponents are measured first, and all costs are those at full load.
"""

import concurrent.futures
import dataclasses
import math
import random
import time

from harness.command import Failure
from harness.measure import precise_cpu_seconds
from harness.ports import free_port
from scenarios import provider_helpers, session_helpers
from sizing.clients import Load, api_request, at_rate, cookie_of, sign_in_request, sign_out_request

# The lengths of the tokens of a session with a password, as in memory.py.
ACCESS_BYTES, REFRESH_BYTES = 400, 43
# Longer than the interval at which the gateway releases caches and returns memory.
QUIET_SECONDS = 7
# The minimum time from tokens to their refresh that is due to their expiry, and a margin.
REFRESH_SECONDS = 32
# Uses are recorded after an eighth of this: two seconds.
SHORT_IDLE_SECONDS = 16
# Each session is used once in this time, so each use is recorded.
TOUCH_SECONDS = 3
TOUCH_ROUNDS = 6
# Requests per second that show how costs depend on the load, and the time for each.
LOADS = (400, 1_000, 2_500, 6_000)
LOAD_SECONDS = 10
IDLE_SECONDS = 5
WARM_UP = 500
# Sign-ins, sign-outs and refreshes per second: with many more, several would share a wait for the replica.
WRITES_PER_SECOND = 400
WRITES = 4_000
# The default of session.maxSessionsPerAccount.
MOST_SESSIONS = 100
LOGINS = 300
LOGIN_THREADS = 8
EXPIRES_IN = {"expiresIn": "expiresIn"}
# Attempts are counted as usual, and without a limit: sign-ins come from few addresses.
ACCOUNTS = {"throttle": True, "signInsPerAddress": 0}


@dataclasses.dataclass
class Cost:
    """Per operation: microseconds of CPU time at full load, and bytes that the server receives and sends."""

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
    """Adds up what gateways and primaries do while a block runs, without what they do when idle."""

    def __init__(self, gateways, shards, idle):
        self.gateways, self.shards, self.idle = gateways, shards, idle

    def __enter__(self):
        self.before, self.started = read(self.gateways, self.shards), time.monotonic()
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.seconds = time.monotonic() - self.started
            total = (after - before for after, before in zip(read(self.gateways, self.shards), self.before))
            # Per second: shares of cores, and bytes.
            self.rates = Cost(*(max(0, each / self.seconds - idle) for each, idle in zip(total, self.idle)))

    def shares(self):
        """The share of a core for which each gateway and each primary was busy."""
        return self.rates.gateway / len(self.gateways), self.rates.server / len(self.shards.servers)


def read(gateways, shards):
    """CPU seconds of the gateways and of the primaries, bytes received by primaries, and bytes sent, so far."""
    return (sum(precise_cpu_seconds(gateway.pid) for gateway in gateways), *shards.figures())


def idle_rates(gateways, shards):
    """What they do per second without requests, from some seconds after the last one."""
    time.sleep(QUIET_SECONDS)
    before = read(gateways, shards)
    time.sleep(IDLE_SECONDS)
    return [(after - first) / IDLE_SECONDS for after, first in zip(read(gateways, shards), before)]


@dataclasses.dataclass
class Exponents:
    """How the costs of gateways and servers depend on their load."""

    gateway: float
    server: float

    def each(self, meter, count):
        """The cost of each operation at full load."""
        gateway, server = meter.shares()
        gateway = full_load(gateway, self.gateway) * len(meter.gateways)
        server = full_load(server, self.server) * len(meter.shards.servers)
        rate = count / meter.seconds
        return Cost(gateway * 1e6 / rate, server * 1e6 / rate, meter.rates.received / rate, meter.rates.sent / rate)


def full_load(share, exponent):
    """The share of a core that the work of a process would take at full load."""
    return share ** (1 / exponent) if share < 1 else share


def slope(points):
    """The least-squares slope."""
    middle_x, middle_y = (sum(point[axis] for point in points) / len(points) for axis in (0, 1))
    above = sum((x - middle_x) * (y - middle_y) for x, y in points)
    return above / sum((x - middle_x) ** 2 for x, _ in points)


class Costs:
    """Measures the costs of all operations with a cluster of one primary."""

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
        self.exponents = self.exponents_of_load()
        cookies = self.sign_ins()
        self.sign_ins_of_few()
        local = self.look_ups(cookies)
        self.changed(cookies)
        self.touches()
        self.sign_outs(cookies)
        self.refreshes()
        self.logins()
        return {name: cost.rounded() for name, cost in self.results.items()}, self.gateway_bytes, local

    def of_sessions(self, exponents):
        """The costs of sign-ins and look-ups only, with servers that have many sessions."""
        self.exponents = exponents
        gateway = self.gateway()
        self.idle = idle_rates([gateway], self.shards)
        gateway.stop()
        self.look_ups(self.sign_ins())
        return {name: cost.rounded() for name, cost in self.results.items()}

    def meter(self, gateway):
        return Meter([gateway], self.shards, self.idle)

    def exponents_of_load(self):
        """From requests that are mostly cached for the gateway, and from ones that never are for the server."""
        (gateway, _), (_, server) = self.loads(1_800), self.loads(1)
        found = Exponents(round(slope(gateway), 3), round(slope(server), 3))
        print(f"  exponents of the load: gateway {found.gateway}, server {found.server}", flush=True)
        return found

    def loads(self, cache_size):
        """The logarithms of rates of requests of 2,000 sessions, and of the shares of a core for which gateway and server
        are busy with them."""
        gateway, gateways, servers = self.gateway(cacheSize=cache_size), [], []
        cookies, _ = sign_in_all(gateway, 1, 2_000)
        self.idle = idle_rates([gateway], self.shards)
        for rate in LOADS:
            with Load([gateway]) as load, self.meter(gateway) as meter:
                jobs = ((0, api_request(random.choice(cookies)), None) for _ in range(rate * LOAD_SECONDS))
                count = load.run(at_rate(load, rate, jobs))
            rate, (ours, its) = count / meter.seconds, meter.shares()
            print(f"  {rate:,.0f} requests/s, gateway {ours:.3f} and server {its:.4f} cores", flush=True)
            gateways.append((math.log(rate), math.log(ours)))
            servers.append((math.log(rate), math.log(its)))
        gateway.stop()
        return gateways, servers

    def sign_ins(self):
        gateway, first = self.gateway(), self.sessions - min(WRITES, self.sessions // 2)
        cookies, _ = sign_in_all(gateway, 1, first)
        time.sleep(QUIET_SECONDS)
        more, meter = sign_in_all(gateway, first + 1, self.sessions, self.meter)
        self.keep("signIn", self.exponents.each(meter, len(more)))
        gateway.stop()
        return cookies + more

    def sign_ins_of_few(self):
        """Sign-ins of accounts that have sessions already: one with the most that are permitted, and many with some."""
        gateway = self.gateway()
        for name, accounts, rounds in (("signInAtLimit", 1, 2 * MOST_SESSIONS), ("signInEighth", WRITES // 4, 7)):
            users = [self.sessions + accounts + number for number in range(accounts)]
            with Load([gateway]) as load:
                load.run((0, sign_in_request(user), None) for user in users * rounds)
                again = users * (WRITES // 4 // accounts)
                with self.meter(gateway) as meter:
                    load.run(at_rate(load, WRITES_PER_SECOND, ((0, sign_in_request(user), None) for user in again)))
            self.keep(name, self.exponents.each(meter, len(again)))
        gateway.stop()

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

    def changed(self, cookies):
        """Requests whose session has changed since it was cached."""
        gateway = self.gateway()
        self.requests(gateway, cookies)
        cached = self.requests(gateway, cookies)
        self.shards.change_all("u", time.time_ns() // 1_000_000)
        time.sleep(QUIET_SECONDS)
        self.keep("lookUpAgain", self.requests(gateway, cookies).less(cached))
        gateway.stop()

    def requests(self, gateway, cookies, path=b"/videos/1", rate=None):
        with Load([gateway]) as load, self.meter(gateway) as meter:
            jobs = ((0, api_request(cookie, path), None) for cookie in cookies)
            load.run(at_rate(load, rate, jobs) if rate else jobs)
        return self.exponents.each(meter, len(cookies))

    def touches(self):
        """Requests of sessions with a short idle timeout, each of which is recorded as a use, compared with the same ones
        of sessions with a long one."""
        none, recorded = self.slow_requests()
        if recorded > 0.02:
            raise Failure(f"a use was recorded by {recorded:.0%} of the requests of sessions with a long idle timeout")
        each, recorded = self.slow_requests(idleTimeout=f"{SHORT_IDLE_SECONDS}s")
        if recorded < 0.98:
            raise Failure(f"a use was recorded by {recorded:.0%} of the requests only")
        self.keep("touch", each.less(none))

    def slow_requests(self, **session):
        """Requests of many sessions in turn, with the same time between two of each. Returns their cost, and the share of
        them that was recorded as a use."""
        gateway = self.gateway(**session)
        cookies, _ = sign_in_all(gateway, 1, 6_000)
        self.requests(gateway, cookies)
        time.sleep(TOUCH_SECONDS)
        calls = self.shards.calls("evalsha")
        with Load([gateway]) as load, self.meter(gateway) as meter:
            jobs = ((0, api_request(cookie), None) for cookie in cookies * TOUCH_ROUNDS)
            count = load.run(at_rate(load, len(cookies) / TOUCH_SECONDS, jobs))
            # Uses are written each second.
            time.sleep(1.5)
        recorded = (self.shards.calls("evalsha") - calls) / count
        gateway.stop()
        return self.exponents.each(meter, count), recorded

    def sign_outs(self, cookies):
        gateway = self.gateway()
        with Load([gateway]) as load:
            load.run((0, sign_out_request(cookie), None) for cookie in cookies[:WARM_UP])
            some = cookies[WARM_UP : WARM_UP + WRITES]
            with self.meter(gateway) as meter:
                load.run(at_rate(load, WRITES_PER_SECOND, ((0, sign_out_request(cookie), None) for cookie in some)))
        self.keep("signOut", self.exponents.each(meter, len(some)))
        gateway.stop()

    def refreshes(self):
        origin = start_origin(self.environment, 30)
        gateway = self.gateway(origin)
        cookies, _ = sign_in_all(gateway, 1, 3_000)
        self.requests(gateway, cookies)
        time.sleep(REFRESH_SECONDS)
        before = gateway.metric("cloakroom_token_refreshes_total", outcome="success")
        whole = self.requests(gateway, cookies, rate=WRITES_PER_SECOND)
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
                with self.meter(gateway) as meter:
                    statuses = set(threads.map(log_in_and_out, range(count)))
        if not statuses <= {200, 204, 303}:
            raise Failure(f"sign-outs have the statuses {sorted(statuses)}")
        self.keep("login", self.exponents.each(meter, count).less(self.results["signOut"]))
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


def sign_in_all(gateway, first, last, meter=None):
    """Signs in the users with these numbers. Returns their cookies and, with a meter, what was measured."""
    cookies, measured = [], None
    jobs = ((0, sign_in_request(number), lambda head: cookies.append(cookie_of(head))) for number in range(first, last + 1))
    with Load([gateway]) as load:
        if meter is None:
            load.run(jobs)
        else:
            with meter(gateway) as measured:
                load.run(at_rate(load, WRITES_PER_SECOND, jobs))
    return cookies, measured


def start_origin(environment, lifetime=None):
    port = free_port()
    settings = [str(ACCESS_BYTES), str(REFRESH_BYTES), *([str(lifetime)] if lifetime else [])]
    environment.start_module("scenarios.sign_in_origin", str(port), *settings, port=port)
    return port


def valkey(shards, session):
    addresses = [f"127.0.0.1:{server.port}" for server in shards.servers]
    options = {"addresses": addresses, **({"topology": "cluster"} if shards.is_cluster else {})}
    return {"store": "valkey", "valkey": options, "cacheSize": 1_000_000, **session}


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
