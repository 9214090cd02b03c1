"""200 clients on one session whose access token lives for 2 seconds: nobody is signed out, and each token is renewed once."""

from trials import signedin

CLIENTS = 200
LIFETIME = 2


def run(stage, verdict, options):
    mock = signedin.mock(stage, LIFETIME)
    gateway = signedin.gateway(stage, mock, {"store": "memory"})
    judge(verdict, mock, [gateway], options.renewal_seconds)


def judge(verdict, mock, gateways, seconds):
    cookie = signedin.sign_in(gateways[0].port)
    before = sum(gateway.metric("cloakroom_token_refreshes_total", outcome="success") for gateway in gateways)
    with signedin.Refreshes(mock) as refreshes, signedin.Crowd(gateways, cookie, CLIENTS) as crowd:
        crowd.over.wait(seconds)
    told = sum(gateway.metric("cloakroom_token_refreshes_total", outcome="success") for gateway in gateways) - before
    for sample in crowd.samples:
        verdict.figure(f"{sample!r}")
    verdict.holds("nobody is answered with anything but 200", set(crowd.statuses) == {200}, crowd.summary())
    verdict.holds("no refresh token is presented twice", refreshes.reuse == 0, f"{refreshes.reuse} times")
    # The mock's tokens end on a full second, so that they live for 1 to 2 s. They are due when a fifth of that is left, or
    # up to a fifth of the fifth before. Whatever comes earlier is a second renewal of the same token.
    shortest, longest = min(refreshes.gaps, default=0), max(refreshes.gaps, default=0)
    figures = f"{refreshes.count} in {seconds} s, {shortest:.2f} to {longest:.2f} s apart"
    is_once = shortest >= 0.75 and refreshes.count >= seconds / LIFETIME - 2
    verdict.holds("each access token is renewed exactly once", is_once, figures)
    verdict.holds("the gateways count as many as the mock", told == refreshes.count, f"{told:.0f}, {refreshes.count}")
    verdict.figure(f"slowest answer {crowd.slowest * 1e3:.0f} ms")
