"""200 clients with one session whose access token expires after 2 s: no request fails, each token is refreshed once."""

import time

from scenarios import session_helpers

CLIENTS = 200
LIFETIME = 2


def run(environment, checks, options):
    mock = session_helpers.mock(environment, LIFETIME)
    # All clients have one session, and all of them may wait for its refresh.
    gateway = session_helpers.gateway(environment, mock, {"store": "memory"}, limits={"inFlightPerSession": 0})
    check(checks, mock, [gateway], options.refresh_seconds)


def check(checks, mock, gateways, seconds):
    cookie = session_helpers.sign_in(gateways[0].port)
    before = count_refreshes(gateways)
    with (
        session_helpers.RefreshCounter(mock) as refreshes,
        session_helpers.SessionClients(gateways, cookie, CLIENTS) as clients,
    ):
        clients.over.wait(seconds)
    for sample in clients.samples:
        checks.note(f"{sample!r}")
    checks.expect("every response is 200", set(clients.statuses) == {200}, clients.format_statuses())
    checks.expect("no refresh token is presented twice", refreshes.reuse == 0, f"{refreshes.reuse} times")
    # The mock's tokens expire on a full second, so they are valid for 1 to 2 s. That is less than the 30 s between two
    # refreshes before expiry, so each is refreshed when the mock first rejects it. An earlier refresh is a second one of
    # the same token.
    shortest, longest = min(refreshes.gaps, default=0), max(refreshes.gaps, default=0)
    figures = f"{refreshes.count} in {seconds} s, {shortest:.2f} to {longest:.2f} s apart"
    is_once = shortest >= 0.75 and refreshes.count >= seconds / LIFETIME - 2
    checks.expect("each access token is refreshed exactly once", is_once, figures)
    # The mock counts a refresh that is in flight at the end before the gateway does.
    deadline = time.monotonic() + 5
    while (counted := count_refreshes(gateways) - before) < refreshes.count and time.monotonic() < deadline:
        time.sleep(0.1)
    is_same = counted in (refreshes.count, refreshes.count + 1)
    checks.expect("the gateways count as many as the mock", is_same, f"{counted:.0f}, {refreshes.count}")
    checks.note(f"slowest response {clients.slowest * 1e3:.0f} ms")


def count_refreshes(gateways):
    return sum(gateway.metric("cloakroom_token_refreshes_total", outcome="success") for gateway in gateways)
