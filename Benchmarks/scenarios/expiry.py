"""1,000 requests at once with one session of a provider whose access token has just expired: one refresh, and one exchange
for each of two audiences."""

import collections
import contextlib
import time

from scenarios import http1, provider_helpers, session_helpers

REQUESTS = 1_000
# A token is refreshed 30 s after it was issued at the earliest, however short its lifetime.
LIFETIME = 31
AUDIENCES = ("first", "second")
PATHS = ("api", *AUDIENCES)


def run(environment, checks, options):
    provider = provider_helpers.Provider(environment, LIFETIME)
    origin = provider_helpers.audience_origin(environment)
    gateway = provider_helpers.gateway(
        environment,
        provider,
        origin,
        [provider_helpers.route(name, f"/{name}/{{number}}", name, "bearer") for name in PATHS],
        identity={"exchange": {name: {"audience": f"https://{name}.example.com"} for name in AUDIENCES}},
        upstreams=AUDIENCES,
        # All requests come from one address and have one session.
        limits={"connectionsPerAddress": 0, "inFlightPerAddress": 0, "inFlightPerSession": 0},
    )
    cookies = [provider_helpers.log_in(gateway) for _ in range(2)]
    for cookie in cookies:
        for path in PATHS:
            with http1.Client(gateway.port) as client:
                client.get(f"/{path}/0", cookie)
                checks.expect(f"before: a token for {path}", client.status == 200, f"status {client.status}")
    time.sleep(LIFETIME + 0.5)
    crowd(checks, "a fast provider", gateway, provider, origin, cookies[0])
    provider.script(faults={name: [{"delay": 0.5}] for name in ("refresh", "exchange")})
    # All requests wait: none arrives after the refresh.
    crowd(checks, "a provider that takes 0.5 s", gateway, provider, origin, cookies[1])


def crowd(checks, what, gateway, provider, origin, cookie):
    calls, tokens = provider.token_calls(), provider_helpers.seen(origin)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(http1.Client(gateway.port)) for _ in range(REQUESTS)]
        time.sleep(0.5)
        start = time.monotonic()
        for number, client in enumerate(clients):
            client.send("GET", f"/{PATHS[number % len(PATHS)]}/{number}", fields=cookie)
        sent = time.monotonic()
        statuses = collections.Counter(status_of(client) for client in clients)
        end = time.monotonic()
    figures = ", ".join(f"{count} × {status}" for status, count in statuses.items())
    figures += f", sent in {(sent - start) * 1e3:.0f} ms, all responses after {(end - start) * 1e3:.0f} ms"
    checks.expect(f"{what}: every response is 200", set(statuses) == {200}, figures)
    refreshes, others = (now - before for now, before in zip(provider.token_calls(), calls))
    checks.expect(f"{what}: one refresh", refreshes == 1, f"{refreshes}")
    checks.expect(f"{what}: one exchange per audience", others == len(AUDIENCES), f"{others} for {len(AUDIENCES)}")
    now = provider_helpers.seen(origin)
    found = {path: now[path]["tokens"] - tokens[path]["tokens"] for path in PATHS}
    checks.expect(f"{what}: each audience gets one new token", set(found.values()) == {1}, f"{found}")


def status_of(client):
    try:
        client.receive()
        client.body()
        return client.status
    except (OSError, http1.Closed, http1.Truncated, http1.Malformed) as error:
        return type(error).__name__
