"""Malformed and ambiguous requests, in families. NUMBER is a placeholder for the six digits of the attempt."""

import dataclasses

CRLF = "\r\n"
SMUGGLED = "GET /smuggled/NUMBER HTTP/1.1\r\nHost: localhost\r\n\r\n"
MARKER = "GET /marker/NUMBER HTTP/1.1\r\nHost: localhost\r\n\r\n"


@dataclasses.dataclass(frozen=True)
class Case:
    family: str
    name: str
    text: str
    # Whether the request must be rejected. Otherwise rejecting and forwarding are both correct.
    must_reject: bool

    def bytes(self, number):
        return self.text.replace("NUMBER", f"{number:06d}").encode("latin-1")


def post(lines, body, line="POST /case/NUMBER HTTP/1.1", host="Host: localhost\r\n"):
    return f"{line}\r\n{host}{lines}\r\n\r\n{body}"


def get(lines, line="GET /case/NUMBER HTTP/1.1", host="Host: localhost\r\n"):
    return f"{line}\r\n{host}{lines and lines + CRLF}\r\n"


CHUNKED_EMPTY = "0\r\n\r\n"
CL_TE_BODY = CHUNKED_EMPTY + SMUGGLED


def transfer_encodings():
    """RFC 9112 §6.1, §6.3: codings, alone and together with a length."""
    values = {
        "chunked": None,
        "Chunked": None,
        "CHUNKED": None,
        "\tchunked": None,
        "chunked\t ": None,
        "xchunked": True,
        "chunkedx": True,
        "chunked, identity": True,
        "identity, chunked": True,
        "chunked, chunked": True,
        "gzip, chunked": True,
        "chunked, gzip": True,
        '"chunked"': True,
        "chunked;q=1": True,
        ",chunked": None,
        "chunked,": None,
        "": True,
        "chun ked": True,
        "chunked\x0b": True,
        "\x0bchunked": True,
        "identity": True,
        "gzip": True,
        "chunked\x00": True,
        "cow, chunked": True,
    }
    for value, must_reject in values.items():
        yield f"{value!r} alone", post(f"Transfer-Encoding: {value}", CL_TE_BODY), must_reject
        # The length covers all bytes: a parser that uses it finds one request, a parser that ignores it finds two.
        for order in (0, 1):
            lines = [f"Content-Length: {len(CL_TE_BODY)}", f"Transfer-Encoding: {value}"]
            title = f"{value!r} {'after' if order == 0 else 'before'} a length"
            yield title, post("\r\n".join(lines if order == 0 else lines[::-1]), CL_TE_BODY), True
    short = f"{len(SMUGGLED):x}\r\n{SMUGGLED}\r\n{CHUNKED_EMPTY}"
    yield "a length that ends inside the chunk", post("Content-Length: 4\r\nTransfer-Encoding: chunked", short), True
    yield "two fields", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", CL_TE_BODY), True
    yield "two fields alike", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", CL_TE_BODY), True
    yield "in HTTP/1.0", post("Transfer-Encoding: chunked", CL_TE_BODY, "POST /case/NUMBER HTTP/1.0"), True
    kept = "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Length: 5"
    yield "in HTTP/1.0, persistent, with a length", post(kept, CL_TE_BODY, "POST /case/NUMBER HTTP/1.0"), True
    yield "with a GET", post("Transfer-Encoding: chunked", CL_TE_BODY, "GET /case/NUMBER HTTP/1.1"), None
    for name in (
        "Transfer-Encoding ",
        "Transfer-Encoding\t",
        " Transfer-Encoding",
        "Transfer-Encoding\x00",
        "Transfer-Encoding\x0b",
    ):
        yield f"name {name!r}", post(f"Content-Length: {len(CL_TE_BODY)}\r\n{name}: chunked", CL_TE_BODY), True
    for name in ("Transfer_Encoding", "Transfer.Encoding", "X-Transfer-Encoding"):
        yield f"name {name!r}", post(f"Content-Length: {len(CL_TE_BODY)}\r\n{name}: chunked", CL_TE_BODY), None


def lengths():
    """RFC 9112 §6.3: lengths that are not plain decimals."""
    bad = [
        "+5",
        "-5",
        "5,5",
        "5, 5",
        "5,6",
        "5 5",
        "0x5",
        "5.0",
        "5e0",
        "",
        "5;",
        '"5"',
        "1_0",
        "five",
        "5\x00",
        "\x0b5",
        "\xb5",
        "18446744073709551616",
        "18446744073709551621",
        "9223372036854775808",
        "9" * 40,
        "-0",
        "0, 5",
    ]
    for value in bad:
        yield repr(value), post(f"Content-Length: {value}", "hello" + SMUGGLED), True
    for value in ("005", "5 ", "\t5"):
        yield repr(value), post(f"Content-Length: {value}", "hello"), None
    for first, second in (("5", "6"), ("0", "5"), ("5", "0"), ("5", "+5")):
        yield f"{first} and {second}", post(
            f"Content-Length: {first}\r\ncontent-length: {second}", "hello" + SMUGGLED
        ), True
    yield "5 and 5", post("Content-Length: 5\r\nContent-Length: 5", "hello" + SMUGGLED), None
    for name in ("Content-Length ", "Content-Length\t", " Content-Length", "Content-\x00Length"):
        yield f"name {name!r}", post(f"{name}: 5", "hello" + SMUGGLED), True
    for name in ("Content_Length", "Content Length", "Content-Length:"):
        # The value of the last one is ": 5".
        yield f"name {name!r}", post(f"{name}: 5", SMUGGLED), None if "_" in name else True


def field_lines():
    """RFC 9112 §5, RFC 9110 §5.5: invalid field lines."""
    for name, lines in {
        "fold by space": "X-A: 1\r\n Transfer-Encoding: chunked",
        "fold by tab": "X-A: 1\r\n\tContent-Length: 5",
        "fold of a length": "Content-Length:\r\n 5",
        "fold of a coding": "Transfer-Encoding:\r\n chunked",
        "empty fold": "X-A: 1\r\n \r\nX-B: 2",
        "no colon": "X-A",
        "no name": ": 1",
        "space before the colon": "X-A : 1",
        "tab before the colon": "X-A\t: 1",
        "space in the name": "X A: 1",
        "bracket in the name": "X(A): 1",
        "NUL in the name": "X\x00A: 1",
        "letter beyond ASCII in the name": "X\xe4: 1",
        "NUL in the value": "X-A: 1\x002",
        "CR in the value": "X-A: 1\r2",
        "CR and a field in the value": "X-A: 1\rContent-Length: 5",
        "ESC in the value": "X-A: 1\x1b2",
        "DEL in the value": "X-A: 1\x7f2",
        "vertical tab in the value": "X-A: 1\x0b2",
        "CR CR LF": "X-A: 1\r\r\nX-B: 2",
    }.items():
        yield name, get(lines), True
    yield "space before the first field", get("", host=" Host: localhost\r\n"), True
    yield "space before the first of two", get("", host=" X-A: 1\r\nHost: localhost\r\n"), True
    yield "letter beyond ASCII in the value", get("X-A: \xe4"), None


def line_ends():
    """RFC 9112 §2.2: only CR LF ends a line."""
    yield "LF after the request line", get("").replace("\r\n", "\n", 1), True
    yield "LF after a field", get("X-A: 1").replace("1\r\n", "1\n"), True
    yield "LF everywhere", get("X-A: 1").replace("\r\n", "\n"), True
    yield "LF LF ends the head", get("X-A: 1")[:-4] + "\n\n" + SMUGGLED, True
    yield "CR LF LF ends the head", get("X-A: 1")[:-2] + "\n" + SMUGGLED, True
    yield "LF CR LF ends the head", get("X-A: 1")[:-4] + "\n\r\n" + SMUGGLED, True
    yield "CR everywhere", get("X-A: 1").replace("\r\n", "\r"), None
    yield "LF hides a field", get("X-A: 1\nTransfer-Encoding: chunked"), True
    yield "LF hides a request", get("X-A: 1\n\n" + SMUGGLED.rstrip()), True
    yield "empty line first", "\r\n" + get(""), None
    yield "LF first", "\n" + get(""), None
    yield "three empty lines first", "\r\n\r\n\r\n" + get(""), None


def request_lines():
    """RFC 9112 §2.3, §3: invalid request lines."""
    for line, must_reject in {
        "GET  /case/NUMBER HTTP/1.1": True,
        "GET /case/NUMBER  HTTP/1.1": True,
        "GET\t/case/NUMBER HTTP/1.1": True,
        "GET /case/NUMBER HTTP/1.1 ": True,
        " GET /case/NUMBER HTTP/1.1": True,
        "GET /case/NUMBER": True,
        "GET /case/NUMBER ": True,
        "GET /case/NUMBER HTTP/0.9": True,
        "GET /case/NUMBER HTTP/2.0": True,
        "GET /case/NUMBER HTTP/1.10": True,
        "GET /case/NUMBER http/1.1": True,
        "GET /case/NUMBER HTTP/1.1x": True,
        "GET /case/NUMBER HTTP/01.1": True,
        "GET /case/NUMBER HTTP/1,1": True,
        "GET /case/NUMBER HTTP/1": True,
        "GET /case/NUMBER HTTP/ 1.1": True,
        "GET /case/NUMBER HTTP/1.2": None,
        "GET /case/NUMBER HTTP/1.1 HTTP/1.1": True,
        "GET /case/NUMBER\x00 HTTP/1.1": True,
        "GET /case/NUMBER /smuggled/NUMBER HTTP/1.1": True,
        "GET /case/NUMBER\rX: HTTP/1.1": True,
        "GET /case/NUMBER\x7f HTTP/1.1": True,
        "GET /case/NUMBER#part HTTP/1.1": True,
        "GET /case/NUMBER\xe4 HTTP/1.1": True,
        "GET case/NUMBER HTTP/1.1": True,
        "GET * HTTP/1.1": True,
        "GET localhost:80 HTTP/1.1": True,
        "G@T /case/NUMBER HTTP/1.1": True,
        "G(T /case/NUMBER HTTP/1.1": True,
        "get /case/NUMBER HTTP/1.1": None,
        "/case/NUMBER HTTP/1.1": True,
        "HTTP/1.1 200 OK": True,
        "CONNECT localhost:80 HTTP/1.1": None,
        "TRACE /case/NUMBER HTTP/1.1": None,
        "OPTIONS * HTTP/1.1": None,
        "GET /a/../case/NUMBER HTTP/1.1": None,
        "GET /a/%2e%2e/smuggled/NUMBER HTTP/1.1": None,
        "GET //case/NUMBER HTTP/1.1": None,
        "GET /case/NUMBER/%00 HTTP/1.1": None,
        "GET /case/NUMBER/%0d%0aX:%201 HTTP/1.1": None,
        "GET /case/NUMBER\\..\\smuggled HTTP/1.1": None,
        "GET /case/NUMBER?a=b c HTTP/1.1": True,
        "PRI * HTTP/2.0": True,
    }.items():
        yield repr(line), get("", line), must_reject


def hosts():
    """RFC 9112 §3.2: the target host."""
    for host, must_reject in {
        "": True,
        "Host: localhost\r\nHost: localhost\r\n": True,
        "Host: localhost\r\nHost: other\r\n": True,
        "Host: a@localhost\r\n": True,
        "Host: local host\r\n": True,
        "Host: localhost, other\r\n": True,
        "Host: localhost:x\r\n": True,
        "Host: localhost/path\r\n": True,
        "Host : localhost\r\n": True,
        "Host: localhost\x00\r\n": True,
        "Host: [::1\r\n": True,
        "Host:\r\n": None,
        "Host: localhost:99999\r\n": None,
    }.items():
        yield repr(host), get("", host=host), must_reject
    for target, must_reject in {
        "http://localhost/case/NUMBER": None,
        "http://other.localhost/case/NUMBER": None,
        "HTTP://other/case/NUMBER": None,
        "https://other/case/NUMBER": None,
        "http://a@other/case/NUMBER": True,
        "http:///case/NUMBER": True,
        "http://other:x/case/NUMBER": True,
        "ftp://other/case/NUMBER": None,
        "http://other\\@localhost/case/NUMBER": True,
        "http://other.localhost?case=NUMBER": None,
        "http:/case/NUMBER": True,
    }.items():
        yield f"absolute form {target!r}", get("", f"GET {target} HTTP/1.1"), must_reject
    yield "absolute form without Host", get("", "GET http://other/case/NUMBER HTTP/1.1", host=""), True
    yield "absolute form with two Hosts", get("Host: b", "GET http://other/case/NUMBER HTTP/1.1"), True


def chunks():
    """RFC 9112 §7.1: invalid chunks."""
    for body, must_reject in {
        "5\r\nhello\r\n0\r\n\r\n": None,
        "A\r\nhellohello\r\n000\r\n\r\n": None,
        "5;a=b\r\nhello\r\n0\r\n\r\n": None,
        '5;a="b;c"\r\nhello\r\n0\r\n\r\n': None,
        "5\r\nhello\r\n0\r\nX-Trailer: 1\r\n\r\n": None,
        "+5\r\nhello\r\n0\r\n\r\n": True,
        "-5\r\nhello\r\n0\r\n\r\n": True,
        "0x5\r\nhello\r\n0\r\n\r\n": True,
        " 5\r\nhello\r\n0\r\n\r\n": True,
        "5 5\r\nhello\r\n0\r\n\r\n": True,
        "\t5\r\nhello\r\n0\r\n\r\n": True,
        "5 \r\nhello\r\n0\r\n\r\n": None,
        "5 ;a=b\r\nhello\r\n0\r\n\r\n": None,
        "5,\r\nhello\r\n0\r\n\r\n": True,
        "5h\r\nhello\r\n0\r\n\r\n": True,
        "\r\nhello\r\n0\r\n\r\n": True,
        ";a\r\nhello\r\n0\r\n\r\n": True,
        "10000000000000005\r\nhello\r\n0\r\n\r\n": True,
        "FFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n": True,
        "00000000000000000005\r\nhello\r\n0\r\n\r\n": None,
        "-0\r\n\r\n": True,
        "0_5\r\nhello\r\n0\r\n\r\n": True,
        "5\nhello\r\n0\r\n\r\n": True,
        "5\r\nhello\n0\r\n\r\n": True,
        "5\r\nhello\r\n0\n\n": True,
        "5\r\nhello\r\n0\r\n\n": True,
        "5\rhello\r\n0\r\n\r\n": True,
        "5\r\nhello\r0\r\n\r\n": True,
        "5\r\nhello0\r\n\r\n": True,
        "5\r\nhello!\r\n0\r\n\r\n": True,
        "5\r\nhell\r\n0\r\n\r\n": True,
        "5;a\nb\r\nhello\r\n0\r\n\r\n": True,
        "5;a\rb\r\nhello\r\n0\r\n\r\n": True,
        "5;a\x00b\r\nhello\r\n0\r\n\r\n": True,
        f"5;{'a' * 20_000}\r\nhello\r\n0\r\n\r\n": True,
        # A parser that accepts a bare LF finds another request in the extension.
        f"5;\n{SMUGGLED}\r\nhello\r\n0\r\n\r\n": True,
        f"0\r\n{SMUGGLED}": True,
        f"0\n\n{SMUGGLED}": True,
        f"0\r\n\n{SMUGGLED}": True,
        "0\r\nContent-Length: 50\r\n\r\n": None,
        "0\r\nTransfer-Encoding: chunked\r\n\r\n": None,
        "0\r\nHost: other\r\n\r\n": None,
        "0\r\nX-A: 1\r\n fold\r\n\r\n": True,
        "0\r\nX-A : 1\r\n\r\n": True,
        "0\r\nX-A: 1\n\r\n": True,
        "0\r\nX\x00: 1\r\n\r\n": True,
        "0\r\n: 1\r\n\r\n": True,
        "0\r\nX-A\r\n\r\n": True,
        "0\r\nX-A: 1\rX\r\n\r\n": True,
        "0\r\n" + "X-A: 1\r\n" * 2_000 + "\r\n": True,
    }.items():
        title = repr(body if len(body) < 60 else body[:40] + "…")
        yield title, post("Transfer-Encoding: chunked", body), must_reject
    yield "two chunked requests", post("Transfer-Encoding: chunked", "5\r\nhello\r\n" + CL_TE_BODY), None


def bodies():
    """Requests hidden in bodies, and framing fields that a proxy might remove."""
    hidden, body = f"Content-Length: {len(SMUGGLED)}", SMUGGLED
    yield "in a body with a length", post(hidden, body), None
    yield "in a GET's body", post(hidden, body, "GET /case/NUMBER HTTP/1.1"), None
    yield "in a HEAD's body", post(hidden, body, "HEAD /case/NUMBER HTTP/1.1"), None
    yield "in a DELETE's body", post(hidden, body, "DELETE /case/NUMBER HTTP/1.1"), None
    yield "in an OPTIONS' body", post(hidden, body, "OPTIONS /case/NUMBER HTTP/1.1"), None
    yield "after a length of 0", post("Content-Length: 0", SMUGGLED), None
    yield "after a POST without framing", post("X-A: 1", SMUGGLED), None
    for named in ("Content-Length", "Transfer-Encoding", "Host", "close, Content-Length", "keep-alive, Host"):
        yield f"Connection: {named}, with a length", post(f"Connection: {named}\r\n{hidden}", body), None
        yield f"Connection: {named}, chunked", post(
            f"Connection: {named}\r\nTransfer-Encoding: chunked", CL_TE_BODY
        ), None
    upgrade = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"
    yield "upgrade to h2c", get(upgrade) + SMUGGLED, None
    socket = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    socket += "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg=="
    yield "upgrade to websocket", get(socket) + SMUGGLED, None
    yield "upgrade to websocket of a wrong version", get(socket.replace("13", "777")) + SMUGGLED, None
    yield "expectation", post(f"Expect: 100-continue\r\n{hidden}", body), None
    yield "expectation, chunked", post("Expect: 100-continue\r\nTransfer-Encoding: chunked", CL_TE_BODY), None
    yield "expectation of something else", post(f"Expect: 200-ok\r\n{hidden}", body), True
    yield "two expectations", post(f"Expect: 100-continue\r\nExpect: x\r\n{hidden}", body), None
    yield "HTTP/1.0 with a length", post(
        f"Connection: keep-alive\r\n{hidden}", body, "POST /case/NUMBER HTTP/1.0"
    ), None
    yield "X-HTTP-Method-Override", post(f"X-HTTP-Method-Override: HEAD\r\n{hidden}", body), None
    yield "keep-alive twice", post(f"Connection: close\r\nConnection: keep-alive\r\n{hidden}", body), None


FAMILIES = {
    "transfer-encoding": transfer_encodings,
    "content-length": lengths,
    "field lines": field_lines,
    "line ends": line_ends,
    "request line": request_lines,
    "host and target": hosts,
    "chunks": chunks,
    "bodies": bodies,
}


def cases():
    for family, generate in FAMILIES.items():
        for name, text, must_reject in generate():
            yield Case(family, name, text, bool(must_reject))
