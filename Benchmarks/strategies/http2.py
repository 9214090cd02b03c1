"""Strategies of HTTP/2, in clear text with prior knowledge unless the name has TLS."""

import itertools
import struct

from scenarios.http2 import CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADER_TABLE_SIZE, HEADERS, INITIAL_WINDOW
from scenarios.http2 import PING, PREFACE, RESET, SETTINGS, WINDOW, frame, setting
from strategies.clear import once, repeat
from strategies.strategy import Strategy

PRIORITY, PADDED, UNKNOWN = 2, 8, 0xBB
HTTP, HTTPS = b"\x86", b"\x87"
GET, POST = b"\x82", b"\x83"


def integer(value, bits, first=0):
    """An integer of HPACK with a prefix of `bits`, RFC 7541 section 5.1."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    encoded, value = bytearray([first | most]), value - most
    while value >= 128:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes(encoded) + bytes([value])


def literal(name, value, first=0):
    """A literal field; `first` is 0x40 if it is added to the dynamic table."""
    return bytes([first]) + integer(len(name), 7) + name + integer(len(value), 7) + value


def block(path=b"/open/small", method=GET, scheme=HTTP, more=b""):
    return method + scheme + b"\x01" + integer(9, 7) + b"localhost" + b"\x04" + integer(len(path), 7) + path + more


def request(stream, fields, end=END_STREAM):
    return frame(HEADERS, END_HEADERS | end, stream, fields)


def window(stream, increment):
    return frame(WINDOW, 0, stream, struct.pack(">I", increment))


def opening(stream_window=65_535, more=b"", table=4_096):
    return PREFACE + frame(SETTINGS, 0, 0, setting(INITIAL_WINDOW, stream_window) + setting(HEADER_TABLE_SIZE, table)) + more


OPENING = opening(more=window(0, 2**30))
UPLOAD = OPENING + request(1, block(method=POST), 0)


def streams(make, at_once=10, start=OPENING):
    """A script that writes `make(stream)` for one stream after the other."""

    def script(number):
        yield start
        for first in itertools.count(1, 2 * at_once):
            yield b"".join(make(first + 2 * index) for index in range(at_once))

    return script


def held(count, fields=None, start=OPENING, end=END_STREAM):
    """A script that opens streams and then holds them."""
    fields = fields or block(b"/open/large")
    return once(start, b"".join(request(1 + 2 * index, fields, end) for index in range(count)))


def churn(number):
    """Fields that are added to the dynamic table, each another one."""
    yield OPENING
    for index in itertools.count():
        added = b"".join(literal(b"x-%d-%d" % (index, each), b"v" * 40, 0x40) for each in range(40))
        yield request(1 + 2 * index, block(more=added))


def large_churn(number):
    """Large fields that are added to the dynamic table, each of which evicts the one before it."""
    yield OPENING
    added = literal(b"x", b"v" * 3_900, 0x40) * 3
    for index in itertools.count():
        yield request(1 + 2 * index, block(more=added))


def bomb(number):
    """A field of 4,000 bytes that each request refers to many times."""
    yield OPENING + request(1, block(more=literal(b"x", b"v" * 4_000, 0x40)))
    for index in itertools.count(1):
        yield request(1 + 2 * index, block(more=b"\xbe" * 4_000))


def updates(number):
    """A response that is requested one byte at a time."""
    yield opening(1) + request(1, block(b"/open/large"))
    yield from itertools.repeat(window(1, 1) * 20)


def cancel(stream):
    return frame(RESET, 0, stream, struct.pack(">I", 8))


def cancel_earlier(stream):
    """A request, and the reset of one whose response may have begun."""
    return request(stream, block(b"/open/large")) + (cancel(stream - 20) if stream > 20 else b"")


SECURE, HANG = block(scheme=HTTPS), block(b"/open/hang")
UNFINISHED = OPENING + frame(HEADERS, 0, 1, block())
BODY = request(1, block(b"/open/stall", POST), 0) + frame(DATA, 0, 1, b"x" * 16_000) * 4
MORE = frame(CONTINUATION, 0, 1, literal(b"x", b"v" * 4_000))
CRUMBS = literal(b"cookie", b"a=b") * 80
PINGS = frame(PING, 0, 0, b"\0" * 8) * 100
TABLE_SIZES = integer(0, 5, 0x20) + integer(4_096, 5, 0x20)
FIELDS = b"".join(literal(b"x-%d" % number, b"v" * 140) for number in range(90))
PARTIAL = frame(HEADERS, 0, 1, block(more=FIELDS))
HELD = {"connections": 20, "reads": 0, "returns": False}
TEN = {"connections": 10, "kilobytes": 300}

STRATEGIES = [
    Strategy("idle connections, HTTP/2", once(OPENING), "h2c", 200, returns=False),
    Strategy("stream windows closed", held(100, start=opening(0)), "h2c", **HELD),
    Strategy("stream windows closed, TLS", held(100, block(b"/open/large", scheme=HTTPS), opening(0)), "h2", **HELD),
    Strategy("connection window closed", held(100, start=opening(2**30)), "h2c", 20, returns=False),
    Strategy("responses of HTTP/2 not read", held(100, start=opening(2**30, window(0, 2**30))), "h2c", **HELD),
    Strategy("windows of one byte", updates, "h2c", 10, 500),
    Strategy("empty DATA", repeat(frame(DATA, 0, 1) * 100, UPLOAD), "h2c", **TEN),
    Strategy("DATA of one byte", repeat(frame(DATA, 0, 1, b"x") * 100, UPLOAD), "h2c", **TEN),
    Strategy("padding", repeat(frame(DATA, PADDED, 1, b"\xfex" + b"\0" * 254), UPLOAD, 240), "h2c", **TEN),
    Strategy("PING", repeat(PINGS, OPENING), "h2c", **TEN),
    Strategy("PING, TLS", repeat(PINGS, OPENING), "h2", **TEN),
    Strategy("PING, replies not read", repeat(PINGS, OPENING), "h2c", 10, reads=0),
    Strategy("SETTINGS", repeat(frame(SETTINGS, 0, 0, setting(INITIAL_WINDOW, 1_000)) * 100, OPENING), "h2c", **TEN),
    Strategy("SETTINGS, replies not read", repeat(frame(SETTINGS, 0, 0) * 100, OPENING), "h2c", 10, reads=0),
    Strategy("WINDOW_UPDATE", repeat(window(0, 1) * 100, opening()), "h2c", **TEN),
    Strategy("PRIORITY", repeat(frame(PRIORITY, 0, 3, b"\0\0\0\0\1") * 100, OPENING), "h2c", **TEN),
    Strategy("unknown frames", repeat(frame(UNKNOWN, 0, 0, b"x" * 100) * 20, OPENING), "h2c", **TEN),
    Strategy("empty CONTINUATION", repeat(frame(CONTINUATION, 0, 1) * 100, UNFINISHED), "h2c", **TEN),
    Strategy("CONTINUATION without end", repeat(MORE, UNFINISHED), "h2c", 20, 4_000),
    Strategy("field block at the limit, unfinished", once(OPENING + PARTIAL), "h2c", 100, 2_000),
    Strategy("HPACK table sizes", streams(lambda stream: request(stream, TABLE_SIZES + block())), "h2c", **TEN),
    Strategy("HPACK references to a large field", bomb, "h2c", **TEN),
    Strategy("HPACK insertions", churn, "h2c", 10, 1_000),
    Strategy("HPACK insertions of a large field", large_churn, "h2c", 10, 4_000),
    Strategy("field lists at the limit", streams(lambda stream: request(stream, block(more=FIELDS)), 1), "h2c", 10, 2_000),
    Strategy("cookie fields", streams(lambda stream: request(stream, block(more=CRUMBS))), "h2c", 10, 1_000),
    Strategy("404 over HTTP/2", streams(lambda stream: request(stream, block(b"/no", more=FIELDS)), 1), "h2c", 10, 2_000),
    Strategy("rapid reset", streams(lambda stream: request(stream, block()) + cancel(stream)), "h2c", **TEN),
    Strategy("rapid reset, TLS", streams(lambda stream: request(stream, SECURE) + cancel(stream)), "h2", **TEN),
    Strategy("resets by an invalid window", streams(lambda stream: request(stream, HANG) + window(stream, 0)), "h2c", **TEN),
    Strategy("DATA on half-closed streams", streams(lambda stream: request(stream, HANG) + frame(DATA, 0, stream)), "h2c", **TEN),
    Strategy("resets of responses", streams(cancel_earlier), "h2c", 10, 100),
    Strategy("streams without end", held(100, block(method=POST), end=0), "h2c", 10, returns=False),
    Strategy("streams beyond the limit", streams(lambda stream: request(stream, HANG)), "h2c", **TEN),
    Strategy("GOAWAY with open streams", once(OPENING, request(1, HANG) + frame(GOAWAY, 0, 0, b"\0" * 8)), "h2c", 200),
    Strategy("bodies of HTTP/2 that the upstream does not read", once(OPENING, BODY), "h2c", 100, 10_000, returns=False),
]
