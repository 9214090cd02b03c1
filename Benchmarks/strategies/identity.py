"""Strategies of sign-ins and sessions, which HAProxy does not have; so their bounds are fixed."""

import base64
import secrets

from strategies.clear import head, invented, once
from strategies.strategy import Strategy

BEHIND_PROXY = {"trustedProxies": ["127.0.0.0/8"]}
HANGING = {"upstream": {"signIn": {"path": "/hang"}}}


def cookie(_text):
    return head(b"/private/x", b"Cookie: cloakroom=%b\r\n" % secrets.token_urlsafe(32).encode())


def sign_in(fields=b"", name=b"jo"):
    credentials = base64.b64encode(name + b"@example.com:invented")
    return head(b"/auth", b"Authorization: Basic %b\r\nContent-Length: 0\r\n%b" % (credentials, fields), b"POST")


def from_address(text):
    address = ".".join(map(str, [10, *secrets.token_bytes(3)])).encode()
    return sign_in(b"X-Forwarded-For: %b\r\n" % address, text)


# An attempt of 150 bytes leaves states of the throttle of 3 KB, of which there are at most 100,000. A sign-in in flight, 246
# bytes, holds 67 KB. Each has a connection of its own to the gateway and to the upstream, which is most of its CPU time.
HANGING_PROXY = {"connections": 100, "changes": BEHIND_PROXY | HANGING, "returns": False}

HALF_BODY = head(b"/auth", b"Content-Type: application/json\r\nContent-Length: 1000\r\n", b"POST") + b" " * 500

STRATEGIES = [
    Strategy("invented session cookies", invented(cookie), "h1", 10, 200, fixed=(2, 500)),
    Strategy("two cookies of the session", invented(lambda text: cookie(text)[:-4] + b"; cloakroom=x\r\n\r\n"), fixed=(2, 500)),
    Strategy("half of the body of a sign-in", once(HALF_BODY), "h1", 200, returns=False, fixed=(28, 1_000)),
    Strategy("invented accounts", invented(lambda text: sign_in(name=text)), "h1", 1, 200, fixed=(8, 1_000)),
    Strategy("one account", invented(lambda text: sign_in()), "h1", 1, 200, fixed=(4, 1_000)),
    Strategy("accounts and addresses", invented(from_address), "h1", 10, 200, changes=BEHIND_PROXY, fixed=(28, 1_000)),
    Strategy("sign-ins without a response", lambda number: [from_address(b"%d" % number)], **HANGING_PROXY, fixed=(350, 1_300)),
]
