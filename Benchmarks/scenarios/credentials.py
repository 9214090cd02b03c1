"""Credentials that take more than a sign-in: access tokens of a client, and sessions that are bound to a key."""

import base64
import hashlib
import json
import re
import secrets
import subprocess
import urllib.parse

from harness.command import Failure
from harness.http import EMAIL, PASSWORD, basic_credentials, request

CLIENT = "Basic " + base64.b64encode(b"cloakroom:cloakroom-client-secret").decode()


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def access_token(issuer):
    """An access token that the mock provider of cloakroom-demo issues to another client than the gateway. It needs
    --expose-control."""
    script = {"accessToken": {"claims": {"set": {"client_id": '"program"'}}}}
    status, _, body = request(f"{issuer}/__mock/script", "PUT", body=json.dumps(script))
    if status != 200:
        raise Failure(f"the script of the provider has status {status}: {body[:200]!r}")
    verifier, place = secrets.token_urlsafe(32), {"redirect_uri": "http://127.0.0.1/"}
    challenge = {"code_challenge": encode(hashlib.sha256(verifier.encode()).digest()), "code_challenge_method": "S256"}
    question = {"response_type": "code", "client_id": "cloakroom", "scope": "openid", "state": "1", "nonce": "1"}
    _, fields, _ = request(f"{issuer}/authorize?{urllib.parse.urlencode(question | place | challenge)}")
    code = urllib.parse.parse_qs(urllib.parse.urlsplit(fields["Location"]).query)["code"][0]
    form = {"grant_type": "authorization_code", "code": code, "code_verifier": verifier, **place}
    fields = {"Authorization": CLIENT, "Content-Type": "application/x-www-form-urlencoded"}
    status, _, body = request(f"{issuer}/token", "POST", fields, urllib.parse.urlencode(form))
    if status != 200:
        raise Failure(f"the provider issues no token: {status} {body[:200]!r}")
    return json.loads(body)["access_token"]


def bound_session(url, folder):
    """Signs in, and binds the session to a new key. Returns the value of the `Cookie` field."""
    status, fields, body = request(f"{url}/auth", "POST", {"Authorization": basic_credentials(EMAIL, PASSWORD)})
    challenge = re.search(r'challenge="([^"]+)"', fields.get("Secure-Session-Registration") or "")
    if status != 200 or not challenge:
        raise Failure(f"the sign-in has status {status} and offers no registration: {body[:200]!r}")
    cookie = fields["Set-Cookie"].partition(";")[0]
    proof = {"Cookie": cookie, "Secure-Session-Response": device_proof(folder / "device.pem", challenge[1])}
    status, fields, body = request(f"{url}/auth/device", "POST", proof)
    if status != 200:
        raise Failure(f"the registration of the key has status {status}: {body[:200]!r}")
    return f"{cookie}; {fields['Set-Cookie'].partition(';')[0]}"


def device_proof(file, challenge):
    """A JWS with ES256 that registers a new key, which is written to the file."""
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(file))
    point = openssl("ec", "-in", str(file), "-pubout", "-outform", "DER")[-64:]
    key = {"kty": "EC", "crv": "P-256", "x": encode(point[:32]), "y": encode(point[32:])}
    parts = {"typ": "dbsc+jwt", "alg": "ES256", "jwk": key}, {"jti": challenge}
    signed = ".".join(encode(json.dumps(part).encode()) for part in parts)
    rest = openssl("dgst", "-sha256", "-sign", str(file), data=signed.encode())
    # SEQUENCE { INTEGER r, INTEGER s } becomes r and s with 32 bytes each.
    numbers = b""
    rest = rest[2:]
    while rest:
        numbers += rest[2 : 2 + rest[1]][-32:].rjust(32, b"\0")
        rest = rest[2 + rest[1] :]
    return f"{signed}.{encode(numbers)}"


def openssl(*arguments, data=b""):
    return subprocess.run(["openssl", *arguments], input=data, capture_output=True, check=True).stdout
