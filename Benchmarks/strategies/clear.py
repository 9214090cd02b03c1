"""Strategies of HTTP/1.1 in clear text."""

import itertools

from strategies.strategy import Strategy

HEAD = b"GET /open/small HTTP/1.1\r\nHost: localhost\r\n\r\n"
# Of a head that both accept: HAProxy keeps 1 KiB of its 16 KiB for changes.
HEAD_LIMIT = 15_000
UPGRADE = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
UPGRADE += b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"


def head(target=b"/open/small", fields=b"", method=b"GET", host=b"localhost"):
    return b"%b %b HTTP/1.1\r\nHost: %b\r\n%b\r\n" % (method, target, host, fields)


def post(fields, target=b"/open/small"):
    return head(target, fields, b"POST")


STALLED = post(b"Content-Length: 8000000\r\n", b"/open/stall")
CHUNKED = post(b"Transfer-Encoding: chunked\r\n")


def once(*writes):
    return lambda number: writes


def repeat(piece, start=b"", count=10**9):
    """A script: one write, then another one many times."""
    return lambda number: itertools.chain([start], itertools.repeat(piece, count))


def single_bytes(text, count=10**9):
    """A script that writes each byte of a text separately, over and over."""
    return lambda number: (bytes([byte]) for _ in range(count) for byte in text)


def splits(number):
    for at in range(1, len(HEAD)):
        yield HEAD[:at]
        yield HEAD[at:]


def invented(make):
    """A script of requests that have a part that is different in each: `make` gets a number as bytes."""
    return lambda number: (make(b"%d-%d" % (number, count)) for count in itertools.count())


def padded(fields):
    """An unfinished head at the limit that consists of these fields."""
    return head()[:-2] + (fields * (HEAD_LIMIT // len(fields)))[: HEAD_LIMIT - 60]


LARGE_FIELDS = b"X-Field: %b\r\n" % (b"v" * 14_000)
MANY_FIELDS = b"".join(b"x-%d: v\r\n" % number for number in range(90))
COOKIES = b"Cookie: %b\r\n" % b"; ".join(b"c%d=v" % number for number in range(1_200))

HELD = {"returns": False}
UNREAD = {"returns": False, "reads": 0}

STRATEGIES = [
    Strategy("head split at every offset", splits, "h1", 10, 100),
    Strategy("head of one byte per write", single_bytes(HEAD), "h1", 50, 25),
    Strategy("head at the limit, unfinished", once(padded(LARGE_FIELDS)), "h1", 200, 4_000, **HELD),
    Strategy("head of small fields, unfinished", once(padded(b"x: y\r\n")[:600]), "h1", 400, **HELD),
    Strategy("heads with 90 fields", repeat(head(fields=MANY_FIELDS)), "h1", 10, 1_000),
    Strategy("heads with a field of 14 KB", repeat(head(fields=LARGE_FIELDS)), "h1", 10, 4_000),
    Strategy("heads with 1,200 cookies", repeat(head(fields=COOKIES)), "h1", 10, 2_000),
    Strategy("paths of 7 KB", repeat(head(b"/open/" + b"p" * 7_000)), "h1", 10, 2_000),
    Strategy("empty lines before the request", repeat(b"\r\n" * 500), "h1", 10),
    Strategy("malformed heads", once(b"GET /open/small HTTP/1.1\r\nHost : localhost\r\n\r\n"), "h1", 10, 100),
    Strategy("pipelined, responses not read", repeat(HEAD * 100), "h1", 20, reads=0),
    Strategy("large responses not read", once(head(b"/open/large")), "h1", 100, **UNREAD),
    Strategy("large responses read slowly", once(head(b"/open/large")), "h1", 100, reads=1_000, returns=False),
    Strategy("no response from the upstream", once(head(b"/open/hang")), "h1", 200, **HELD),
    Strategy("body of one byte per write", repeat(b"x", post(b"Content-Length: 99999\r\n")), "h1", 50, 40),
    Strategy("bodies that the upstream does not read", repeat(b"x" * 65_536, STALLED, 120), "h1", 10, 100_000, **HELD),
    Strategy("Content-Length without a body", once(post(b"Content-Length: 100\r\n")), "h1", 200, **HELD),
    Strategy("half of a body of 15 KB", once(post(b"Content-Length: 15000\r\n") + b"x" * 7_500), "h1", 200, 2_000, **HELD),
    Strategy("Expect without a body", once(post(b"Expect: 100-continue\r\nContent-Length: 100\r\n")), "h1", 200, **HELD),
    Strategy("chunks of one byte", repeat(b"1\r\nx\r\n" * 1_000, CHUNKED), "h1", 10, 1_000),
    Strategy("chunks with extensions", repeat(b"1;%b\r\nx\r\n" % (b"e" * 500), CHUNKED), "h1", 10),
    Strategy("trailers without end", repeat(b"x: y\r\n" * 100, CHUNKED + b"1\r\nx\r\n0\r\n"), "h1", 10),
    Strategy("idle connections", once(), "h1", 400, **HELD),
    Strategy("idle connections after a request", once(HEAD), "h1", 400, **HELD),
    Strategy("connections of one request, then RST", once(HEAD), "h1", 20, 150, end="reset"),
    Strategy("404 with heads of 14 KB", repeat(head(b"/no", LARGE_FIELDS)), "h1", 10, 4_000),
    Strategy("401 with heads of 14 KB", repeat(head(b"/private/x", LARGE_FIELDS)), "h1", 10, 4_000),
    Strategy("invented methods", invented(lambda text: head(method=b"M" + text)), "h1", 10, 100),
    Strategy("invented hosts", invented(lambda text: head(host=text + b".localhost")), "h1", 10, 100),
    Strategy("invented paths", invented(lambda text: head(b"/open/" + text)), "h1", 10, 100),
    Strategy("invented unknown paths", invented(lambda text: head(b"/" + text)), "h1", 10, 100),
    Strategy("invented fields", invented(lambda text: head(fields=b"X-%b: %b\r\n" % (text, text))), "h1", 10, 100),
    Strategy("idle WebSockets", once(head(b"/open/socket", UPGRADE)), "h1", 200, **HELD),
    Strategy("WebSocket frames of one byte", repeat(b"\x82\x81abcdx" * 100, head(b"/open/socket", UPGRADE)), "h1", 10, **HELD),
    Strategy("WebSockets with a slow reader", once(head(b"/open/flood", UPGRADE)), "h1", 50, reads=100, returns=False),
]
