"""200 clients on one session whose access token lives for 2 seconds: nobody is signed out, and each token is renewed once."""

import time

from scenarios import session_helpers

CLIENTS = 200
LIFETIME = 2


def run(environment, checks, options):
    mock = session_helpers.mock(environment, LIFETIME)
    gateway = session_helpers.gateway(environment, mock, {"store": "memory"})
    judge(checks, mock, [gateway], options.refresh_seconds)


def judge(checks, mock, gateways, seconds):
    cookie = session_helpers.sign_in(gateways[0].port)
    before = told_by(gateways)
    with session_helpers.Refreshes(mock) as refreshes, session_helpers.Crowd(gateways, cookie, CLIENTS) as crowd:
        crowd.over.wait(seconds)
    for sample in crowd.samples:
        checks.note(f"{sample!r}")
    checks.expect("nobody is answered with anything but 200", set(crowd.statuses) == {200}, crowd.summary())
    checks.expect("no refresh token is presented twice", refreshes.reuse == 0, f"{refreshes.reuse} times")
    # The mock's tokens end on a full second, so that they live for 1 to 2 s. That is less than the 30 s between two
    # renewals for reasons of time, so each is renewed when the mock first rejects it. Whatever comes earlier is a
    # second renewal of the same token.
    shortest, longest = min(refreshes.gaps, default=0), max(refreshes.gaps, default=0)
    figures = f"{refreshes.count} in {seconds} s, {shortest:.2f} to {longest:.2f} s apart"
    is_once = shortest >= 0.75 and refreshes.count >= seconds / LIFETIME - 2
    checks.expect("each access token is renewed exactly once", is_once, figures)
    # A renewal that was under way at the end is counted by the mock first.
    deadline = time.monotonic() + 5
    while (told := told_by(gateways) - before) < refreshes.count and time.monotonic() < deadline:
        time.sleep(0.1)
    is_same = told in (refreshes.count, refreshes.count + 1)
    checks.expect("the gateways count as many as the mock", is_same, f"{told:.0f}, {refreshes.count}")
    checks.note(f"slowest answer {crowd.slowest * 1e3:.0f} ms")


def told_by(gateways):
    return sum(gateway.metric("cloakroom_token_refreshes_total", outcome="success") for gateway in gateways)
