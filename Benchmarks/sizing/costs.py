"""What operations on sessions cost: CPU time of gateway and server, bytes between them, and memory.

Each figure is that of many operations with a gateway of its own, which has one event loop, and a cluster of one primary
and its replica. CPU time is that of the process, from /proc; the bytes are those that the primary counts. Operations are
measured at a low and at a high load: see meter.py.
"""

import concurrent.futures
import random
import time

from harness.command import Failure
from harness.ports import free_port
from scenarios import provider_helpers, session_helpers
from sizing.clients import Load, api_request, at_rate, cookie_of, sign_in_request, sign_out_request
from sizing.meter import QUIET_SECONDS, Meter, at_one_load, at_two_loads, idle_rates

# The lengths of the tokens of a session with a password, as in memory.py.
ACCESS_BYTES, REFRESH_BYTES = 400, 43
# The minimum time from tokens to their refresh that is due to their expiry, and a margin.
REFRESH_SECONDS = 32
# Uses are recorded after an eighth of this: two seconds.
SHORT_IDLE_SECONDS = 16
# Each session is used once in this time, so each use is recorded.
TOUCH_SECONDS = 3
TOUCH_ROUNDS = 6
WARM_UP = 500
# Operations per second of a low load, and its length. A high load is as many as the clients can send.
LOW_LOAD = 400
LOW_SECONDS = 10
# Sign-ins, sign-outs and refreshes are rare: with a low load, each comes with this number of requests of cached sessions,
# whose cost is subtracted.
REQUESTS_PER_WRITE = 7
LOW_WRITES = LOW_LOAD * LOW_SECONDS // (1 + REQUESTS_PER_WRITE)
WRITES = 4_000
# The default of session.maxSessionsPerAccount.
MOST_SESSIONS = 100
LOGINS = 900
LOGIN_THREADS = 8
EXPIRES_IN = {"expiresIn": "expiresIn"}
# Attempts are counted as usual, and without a limit: sign-ins come from few addresses.
ACCOUNTS = {"throttle": True, "signInsPerAddress": 0}


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
        cookies, local = self.of_sessions()
        self.sign_ins_of_few()
        self.changed(cookies)
        self.touches()
        self.sign_outs(cookies)
        self.refreshes()
        self.logins()
        return self.rounded(), self.gateway_bytes, local

    def of_sessions(self):
        """The costs of look-ups and sign-ins. Returns cookies, and the resident bytes of a gateway per cached session."""
        gateway = self.gateway()
        self.idle = idle_rates([gateway], self.shards)
        cookies = sign_in_all(gateway, 1, self.sessions)
        gateway.stop()
        local = self.look_ups(cookies)
        self.gateway_bytes = round(self.sign_ins(local))
        return cookies, local

    def rounded(self):
        return {name: cost.rounded() for name, cost in self.results.items()}

    def run(self, gateway, jobs, rate=None):
        """A sample of operations, at a rate per second or as fast as the clients can."""
        with Load([gateway]) as load, Meter([gateway], self.shards, self.idle) as meter:
            count = load.run(at_rate(load, rate, jobs) if rate else jobs)
        return meter.sample(count)

    def at_both_loads(self, gateway, jobs):
        """Samples of the first of some operations at the low rate, and of the others as fast as the clients can."""
        count = min(LOW_LOAD * LOW_SECONDS, len(jobs) // 2)
        return self.run(gateway, jobs[:count], LOW_LOAD), self.run(gateway, jobs[count:])

    def writes(self, gateway, jobs, cookies):
        """The cost of operations. At the low rate the first of them come with requests of cached sessions: `cookies` is a
        function that returns one."""
        count = min(LOW_WRITES, len(jobs) // 2)
        with Load([gateway]) as load, Meter([gateway], self.shards, self.idle) as meter:
            load.run(at_rate(load, LOW_LOAD, with_requests(jobs[:count], cookies)))
        low = meter.sample(count).less(self.results["request"], REQUESTS_PER_WRITE)
        return at_two_loads(low, self.run(gateway, jobs[count:]))

    def sign_ins(self, local):
        """Returns the bytes of resident memory of a gateway without cached sessions, some seconds after load."""
        gateway = self.gateway()
        cookies = sign_in_all(gateway, self.sessions + 1, self.sessions + WARM_UP)
        self.run(gateway, api_jobs(cookies))
        first = self.sessions + WARM_UP + 1
        jobs = [(0, sign_in_request(number), None) for number in range(first, first + min(WRITES, self.sessions // 2))]
        self.keep("signIn", self.writes(gateway, jobs, lambda: random.choice(cookies)))
        time.sleep(QUIET_SECONDS)
        memory = gateway.resident() - local * (len(cookies) + len(jobs))
        gateway.stop()
        return memory

    def sign_ins_of_few(self):
        """Sign-ins of accounts that have no session yet, of one with the most that are permitted, and of many with some,
        all as fast as the clients can."""
        gateway, first = self.gateway(), 2 * self.sessions
        for name, accounts, rounds in (
            ("signInFirst", WRITES // 4, 0), ("signInAtLimit", 1, 2 * MOST_SESSIONS), ("signInEighth", WRITES // 4, 7),
        ):  # fmt: skip
            users = range(first, first + accounts)
            first += accounts
            with Load([gateway]) as load:
                load.run((0, sign_in_request(user), None) for user in list(users) * rounds)
            again = [(0, sign_in_request(user), None) for user in list(users) * (WRITES // 4 // accounts)]
            self.keep(name, at_one_load(self.run(gateway, again)))
        gateway.stop()

    def look_ups(self, cookies):
        """Requests whose session is not cached, and then the same ones with it cached. Returns the bytes of resident
        memory per cached session."""
        gateway = self.gateway()
        self.run(gateway, api_jobs(cookies[:WARM_UP] * 4))
        time.sleep(QUIET_SECONDS)
        before, rest = gateway.resident(), api_jobs(cookies[WARM_UP:])
        first = self.at_both_loads(gateway, rest)
        time.sleep(QUIET_SECONDS)
        local = (gateway.resident() - before) / len(rest)
        cached = at_two_loads(*self.at_both_loads(gateway, rest))
        cached.server = cached.server_idle = cached.received = cached.sent = 0
        self.keep("request", cached)
        self.keep("lookUp", at_two_loads(*(sample.less(cached) for sample in first)))
        gateway.stop()
        return local

    def changed(self, cookies):
        """Requests whose session has changed since it was cached."""
        gateway = self.gateway()
        self.run(gateway, api_jobs(cookies))
        self.shards.change_all("u", time.time_ns() // 1_000_000)
        time.sleep(QUIET_SECONDS)
        samples = self.at_both_loads(gateway, api_jobs(cookies))
        self.keep("lookUpAgain", at_two_loads(*(sample.less(self.results["request"]) for sample in samples)))
        gateway.stop()

    def touches(self):
        """Requests of sessions with a short idle timeout, each of which is recorded as a use, compared with the same ones
        of sessions with a long one. Uses are written together each second, whatever the load is."""
        none, recorded = self.slow_requests()
        if recorded > 0.02:
            raise Failure(f"a use was recorded by {recorded:.0%} of the requests of sessions with a long idle timeout")
        each, recorded = self.slow_requests(idleTimeout=f"{SHORT_IDLE_SECONDS}s")
        if recorded < 0.98:
            raise Failure(f"a use was recorded by {recorded:.0%} of the requests only")
        self.keep("touch", at_one_load(each.less(at_one_load(none))))

    def slow_requests(self, **session):
        """Requests of many sessions in turn, with the same time between two of each. Returns a sample of them, and the
        share of them that was recorded as a use."""
        gateway = self.gateway(**session)
        cookies = sign_in_all(gateway, 1, 6_000)
        self.run(gateway, api_jobs(cookies))
        time.sleep(TOUCH_SECONDS)
        calls = self.shards.calls("evalsha")
        with Load([gateway]) as load, Meter([gateway], self.shards, self.idle) as meter:
            count = load.run(at_rate(load, len(cookies) / TOUCH_SECONDS, api_jobs(cookies * TOUCH_ROUNDS)))
            # Uses are written each second.
            time.sleep(1.5)
        recorded = (self.shards.calls("evalsha") - calls) / count
        gateway.stop()
        return meter.sample(count), recorded

    def sign_outs(self, cookies):
        gateway = self.gateway()
        others = cookies[-WARM_UP:]
        self.run(gateway, api_jobs(others))
        jobs = [(0, sign_out_request(cookie), None) for cookie in cookies[: min(WRITES, len(cookies) // 2)]]
        self.keep("signOut", self.writes(gateway, jobs, lambda: random.choice(others)))
        gateway.stop()

    def refreshes(self):
        origin = start_origin(self.environment, 30)
        gateway = self.gateway(origin)
        cookies = sign_in_all(gateway, 1, 3_000)
        self.run(gateway, api_jobs(cookies))
        time.sleep(REFRESH_SECONDS)
        before = gateway.metric("cloakroom_token_refreshes_total", outcome="success")
        # The first ones are refreshed here, and then one after the other.
        self.run(gateway, api_jobs(cookies[:WARM_UP]))
        jobs = api_jobs(cookies[WARM_UP:])
        cost = self.writes(gateway, jobs, lambda: random.choice(cookies[:WARM_UP]))
        done = gateway.metric("cloakroom_token_refreshes_total", outcome="success") - before
        if abs(done - len(cookies)) > len(cookies) / 100:
            raise Failure(f"{done:.0f} of {len(cookies)} sessions were refreshed")
        # A request that refreshes is forwarded too.
        self.keep("refresh", cost.less(self.results["request"]))
        gateway.stop()

    def logins(self):
        """Logins at a provider. Each is followed by a sign-out, because all are of one user."""
        provider = provider_helpers.Provider(self.environment, 3_600)
        gateway = start_provider_gateway(self.environment, self.shards, provider, self.origin)
        log_in_and_out = lambda _: session_helpers.sign_out(gateway.port, provider_helpers.log_in(gateway))  # noqa: E731
        with concurrent.futures.ThreadPoolExecutor(LOGIN_THREADS) as threads:
            for count in (LOGINS // 10, LOGINS // 3):
                with Meter([gateway], self.shards, self.idle) as meter:
                    statuses = set(threads.map(log_in_and_out, range(count)))
        if not statuses <= {200, 204, 303}:
            raise Failure(f"sign-outs have the statuses {sorted(statuses)}")
        self.keep("login", at_one_load(meter.sample(count).less(self.results["signOut"])))
        cookies = [cookie_value(gateway) for _ in range(LOGINS)]
        gateway.stop()
        other = start_provider_gateway(self.environment, self.shards, provider, self.origin)
        self.run(other, api_jobs(cookies[: LOGINS // 9] * 5, b"/api/1"))
        rest = api_jobs(cookies[LOGINS // 9 :], b"/api/1")
        first = self.at_both_loads(other, rest)
        cached = at_two_loads(*self.at_both_loads(other, rest))
        self.keep("providerLookUp", at_two_loads(*(sample.less(cached) for sample in first)))
        other.stop()


def api_jobs(cookies, path=b"/videos/1"):
    return [(0, api_request(cookie, path), None) for cookie in cookies]


def with_requests(jobs, cookies):
    """Each job, and requests after it."""
    for job in jobs:
        yield job
        yield from api_jobs(cookies() for _ in range(REQUESTS_PER_WRITE))


def cookie_value(gateway):
    """The cookie of a new login at the provider, as `name=value`."""
    return provider_helpers.log_in(gateway).removeprefix("Cookie: ").strip().encode()


def sign_in_all(gateway, first, last, rate=None):
    """Signs in the users with these numbers, at a rate per second or as fast as possible. Returns their cookies."""
    cookies = []
    with Load([gateway]) as load:
        add = lambda head: cookies.append(cookie_of(head))  # noqa: E731
        jobs = ((0, sign_in_request(number), add) for number in range(first, last + 1))
        load.run(at_rate(load, rate, jobs) if rate else jobs)
    return cookies


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
