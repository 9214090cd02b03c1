"""Single HTTP requests, for set-up and observation. Load and malformed messages have clients of their own."""

import base64
import collections
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


NAVIGATION = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "none"}

Callback = collections.namedtuple("Callback", "url fields")
"""The request with which a browser returns from a provider."""


class LoginFailed(Failure):
    """A login at a provider that ended with another status than that of a success."""

    def __init__(self, step, status, body=b""):
        super().__init__(f"login failed: {step} has status {status} {body[:200]!r}")
        self.status = status


def begin_login(gateway_url, timeout=30):
    """Follows a login to the provider and back, up to the callback, which is not sent."""
    status, fields, body = request(f"{gateway_url}/auth/login", headers=NAVIGATION, timeout=timeout)
    if status != 303:
        raise LoginFailed("its begin", status, body)
    cookie = session_cookie(fields)
    status, fields, body = request(fields["Location"], timeout=timeout)
    if status != 303:
        raise LoginFailed("the provider", status, body)
    return Callback(fields["Location"], {**NAVIGATION, "Cookie": cookie})


def complete_login(callback, timeout=30):
    """Sends a callback, and returns the cookie of the session as `name=value`."""
    status, fields, body = request(callback.url, headers=callback.fields, timeout=timeout)
    cookies = [cookie.partition(";")[0] for cookie in fields.get_all("Set-Cookie", [])]
    session = [cookie for cookie in cookies if "-login-" not in cookie.partition("=")[0]]
    if status not in (200, 303) or not session:
        raise LoginFailed("the callback", status, body)
    return session[0]
