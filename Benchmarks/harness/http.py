"""Single HTTP requests, for set-up and observation. Load and malformed messages have clients of their own."""

import base64
import contextlib
import http.client
import ssl

from harness.command import Failure

EMAIL, PASSWORD = "jo@example.com", "secret"


def unverified_context():
    """A TLS context that accepts the self-signed certificates of tests."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def request(url, method="GET", headers=None, body=None, timeout=10):
    """Sends one request on a connection of its own. Returns status, header fields and body."""
    scheme, _, address = url.partition("://")
    address, slash, path = address.partition("/")
    if scheme == "https":
        connection = http.client.HTTPSConnection(address, timeout=timeout, context=unverified_context())
    else:
        connection = http.client.HTTPConnection(address, timeout=timeout)
    with contextlib.closing(connection):
        connection.request(method, slash + path, body=body, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.headers, response.read()


def basic_credentials(email, password):
    return "Basic " + base64.b64encode(f"{email}:{password}".encode()).decode()


def session_cookie(headers):
    """The cookie that a response sets, as `name=value`, or the empty string."""
    return (headers.get("Set-Cookie") or "").partition(";")[0]


def sign_in(gateway_url, email=EMAIL, password=PASSWORD):
    """Signs in at the gateway and returns its cookie as `name=value`."""
    fields = {"Authorization": basic_credentials(email, password)}
    status, headers, body = request(f"{gateway_url}/auth", method="POST", headers=fields)
    cookie = session_cookie(headers)
    if status != 200 or "=" not in cookie:
        raise Failure(f"sign-in failed: status {status}, no cookie: {body[:300]!r}")
    return cookie
