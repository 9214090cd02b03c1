"""Strategies of TLS."""

import ssl

from harness.http import unverified_context
from strategies.clear import HEAD, HEAD_LIMIT, LARGE_FIELDS, head, once, padded, single_bytes
from strategies.strategy import Strategy

TLS12 = ssl.TLSVersion.TLSv1_2


def client_hello():
    outgoing = ssl.MemoryBIO()
    try:
        unverified_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()


HELLO = client_hello()
# The beginning of a ClientHello of 16 KB.
RECORD = b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc" + b"x" * 16_000


def calls(name, *arguments):
    """A script that calls a function of OpenSSL again and again. What it wants is done by the write that follows."""

    def script(number):
        yield HEAD
        while True:
            yield lambda connection: connection.call_openssl(name, *arguments) or b"\r\n"

    return script


STRATEGIES = [
    Strategy("connections without a handshake", once(), "raw", 300, returns=False),
    Strategy("handshakes after ClientHello", once(HELLO), "raw", 300, returns=False),
    Strategy("ClientHello of one byte per write", single_bytes(HELLO, count=1), "raw", 100, 60),
    Strategy("records of 16 KB, unfinished", once(RECORD), "raw", 200, 4_000),
    Strategy("handshakes, TLS 1.3", once(), "tls", 5, 150, end="close"),
    Strategy("handshakes, TLS 1.2", once(), "tls", 5, 150, end="close", version=TLS12),
    Strategy("resumed handshakes", once(), "tls", 5, 300, end="close", version=TLS12, resumes=True),
    Strategy("idle TLS connections", once(), "tls", 100, returns=False),
    Strategy("records of one byte", single_bytes(HEAD), "tls", 20, 300),
    Strategy("key updates", calls("SSL_key_update", 1), "tls", 5, 500),
    Strategy("renegotiations, TLS 1.2", calls("SSL_renegotiate"), "tls", 5, 100, version=TLS12),
    Strategy("head at the limit, unfinished, TLS", once(padded(LARGE_FIELDS)), "tls", 50, HEAD_LIMIT // 10, returns=False),
    Strategy("large responses not read, TLS", once(head(b"/open/large")), "tls", 50, reads=0, returns=False),
]
