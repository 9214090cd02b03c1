#!/usr/bin/env python3
"""An OpenID Provider for the contract tests: idpyoidc (PyPI) with the HTTP server of the standard library, on loopback.

usage: idpyoidc_provider.py --folder FOLDER --port PORT --gateway URL [--client-jwks FILE] [--token-seconds N]

Prints `issuer URL` when it is ready, and runs until it is ended.

User: jo@example.com with the password secret, which gives the context class urn:example:pwd, or, if urn:example:mfa is
requested, secret+otp. Client: cloakroom / cloakroom-client-secret.
POST /test/rotate adds a signing key that is used from then on; POST /test/forget removes the earlier ones.
"""

import argparse
import http.cookies
import http.server
import json
import pathlib
import sys
import threading
import traceback
import urllib.parse

from cryptojwt.key_bundle import build_key_bundle
from idpyoidc.message.oauth2 import ResponseMessage
from idpyoidc.message.oidc import AuthorizationRequest
from idpyoidc.server import Server
from idpyoidc.server.configure import OPConfiguration
from idpyoidc.server.exception import ClientAuthenticationError, FailedAuthentication
from idpyoidc.server.oauth2.add_on.pkce import CC_METHOD
from idpyoidc.server.oidc.session import Session

CONTEXTS = {"pwd": ("urn:example:pwd", "secret"), "mfa": ("urn:example:mfa", "secret+otp")}
USER = {
    "email": "jo@example.com", "email_verified": True, "name": "Jo Example", "groups": ["staff", "a, b"]}
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
AUTHENTICATION = ["client_secret_basic", "client_secret_post", "private_key_jwt"]
AUDIENCES = ["https://api.example.com", "https://billing.example.com"]
KEYS = [{"type": "RSA", "use": ["sig"]}, {"type": "EC", "crv": "P-256", "use": ["sig"]}]
FORM = """<!doctype html><title>Sign in</title><form method="post" action="{{ action }}">
<input type="hidden" name="token" value="{{ token }}"><input name="username"><input name="password" type="password">
<button>{{ submit_btn }}</button></form>"""
JSON = [("Content-Type", "application/json")]


class EndSession(Session):
    """end_session without client authentication: version 5.0.0 requires it, against RP-Initiated Logout 1.0 §2."""

    def client_authentication(self, *_, **__):
        return {}


def endpoint(path, name, **settings):
    return {"path": path, "class": f"idpyoidc.server.{name}", "kwargs": settings}


def endpoints(issuer):
    grants = "idpyoidc.server.oidc.token_helper"
    exchange_policy = {
        "function": "idpyoidc.server.oauth2.token_helper.validate_token_exchange_policy",
        "kwargs": {"audience": AUDIENCES, "resource": AUDIENCES}}
    return {
        "provider_config": endpoint(
            ".well-known/openid-configuration", "oidc.provider_config.ProviderConfiguration"),
        "authorization": endpoint(
            "authorization", "oidc.authorization.Authorization", response_types_supported=["code"],
            response_modes_supported=["query"], claims_parameter_supported=True),
        "token": endpoint(
            "token", "oidc.token.Token", client_authn_method=AUTHENTICATION, new_refresh_token=True,
            revoke_refresh_on_issue=True, grant_types_helpers={
                "authorization_code": {"class": f"{grants}.access_token.AccessTokenHelper"},
                "refresh_token": {"class": f"{grants}.refresh_token.RefreshTokenHelper"},
                TOKEN_EXCHANGE: {
                    "class": f"{grants}.token_exchange.TokenExchangeHelper", "kwargs": {
                        "subject_token_types_supported": [ACCESS_TOKEN],
                        "requested_token_types_supported": [ACCESS_TOKEN], "policy": {"": exchange_policy}}}}),
        "userinfo": endpoint("userinfo", "oidc.userinfo.UserInfo"),
        "revocation": endpoint(
            "revoke", "oauth2.token_revocation.TokenRevocation", client_authn_method=AUTHENTICATION),
        "end_session": {"path": "end_session", "class": EndSession, "kwargs": {
            "logout_verify_url": f"{issuer}/verify_logout", "post_logout_uri_path": "signed_out", "signing_alg": "ES256",
            "backchannel_logout_supported": True, "backchannel_logout_session_supported": True}}}


def authentication(issuer, folder):
    """One way to authenticate for each context class, with its own password."""
    return {
        name: {
            "acr": context, "class": "idpyoidc.server.user_authn.user.UserPassJinja2", "kwargs": {
                "verify_endpoint": f"{issuer}/verify/{name}", "template": "form.html", "db": {
                    "class": "idpyoidc.server.util.JSONDictDB",
                    "kwargs": {"filename": str(folder / f"{name}.json")}}}}
        for name, (context, _) in CONTEXTS.items()}


def configuration(issuer, folder, token_seconds):
    minted = ["access_token", "refresh_token", "id_token"]
    usage = {
        "authorization_code": {"supports_minting": minted, "max_usage": 1, "expires_in": 60},
        "access_token": {"supports_minting": ["access_token"], "expires_in": token_seconds},
        "refresh_token": {"supports_minting": minted, "expires_in": 3_600}}
    token = "idpyoidc.server.token.jwt_token.JWTToken"
    cookie_keys = [{"type": "OCT", "use": [use], "kid": use} for use in ("enc", "sig")]
    return {
        "issuer": issuer, "template_dir": str(folder), "httpc_params": {"verify": False, "timeout": 5},
        "keys": {
            "key_defs": KEYS, "uri_path": "jwks", "private_path": str(folder / "keys.json"), "read_only": False},
        "preference": {
            "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["RS256", "ES256"],
            "grant_types_supported": ["authorization_code", "refresh_token", TOKEN_EXCHANGE],
            "acr_values_supported": [context for context, _ in CONTEXTS.values()]},
        "cookie_handler": {"class": "idpyoidc.server.cookie_handler.CookieHandler", "kwargs": {
            "keys": {"key_defs": cookie_keys, "private_path": str(folder / "cookies.json"), "read_only": False},
            "name": {"session": "op", "register": "op_client", "session_management": "op_session"}}},
        "claims_interface": {"class": "idpyoidc.server.session.claims.ClaimsInterface", "kwargs": {}},
        "userinfo": {
            "class": "idpyoidc.server.user_info.UserInfo", "kwargs": {"db_file": str(folder / "users.json")}},
        "authentication": authentication(issuer, folder),
        "authz": {"class": "idpyoidc.server.authz.AuthzHandling", "kwargs": {
            "grant_config": {"expires_in": 3_600, "usage_rules": usage}}},
        "token_handler_args": {
            "jwks_def": {
                "private_path": str(folder / "tokens.json"), "read_only": False,
                "key_defs": [{"type": "oct", "bytes": 24, "use": ["enc"], "kid": "code"}]},
            "code": {"kwargs": {"lifetime": 60}},
            "token": {"class": token, "kwargs": {"lifetime": token_seconds, "aud": AUDIENCES[:1]}},
            "refresh": {"class": token, "kwargs": {"lifetime": 3_600}},
            "id_token": {"class": "idpyoidc.server.token.id_token.IDToken", "kwargs": {
                "lifetime": 300, "base_claims": dict.fromkeys(USER)}}},
        "add_on": {"pkce": {
            "function": "idpyoidc.server.oauth2.add_on.pkce.add_support",
            "kwargs": {"essential": True, "code_challenge_methods": {"S256": CC_METHOD["S256"]}}}},
        "endpoint": endpoints(issuer)}


class Provider:
    """The provider without HTTP: a request is a method, a path, parameters and fields."""

    def __init__(self, arguments):
        folder = arguments.folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        self.issuer = f"http://127.0.0.1:{arguments.port}"
        (folder / "form.html").write_text(FORM)
        (folder / "users.json").write_text(json.dumps({USER["email"]: USER}))
        for name, (_, password) in CONTEXTS.items():
            (folder / f"{name}.json").write_text(json.dumps({USER["email"]: password}))
        settings = configuration(self.issuer, folder, arguments.token_seconds)
        settings = OPConfiguration(settings, base_path=str(folder), domain="127.0.0.1", port=arguments.port)
        self.server = Server(settings, cwd=str(folder))
        self.endpoints = {
            urllib.parse.urlsplit(endpoint.full_path).path: endpoint for endpoint in self.server.endpoint.values()}
        self.register(arguments.gateway, arguments.client_jwks)

    def register(self, gateway, jwks):
        self.server.context.cdb["cloakroom"] = {
            "client_id": "cloakroom", "client_secret": "cloakroom-client-secret", "client_salt": "salt",
            "redirect_uris": [(f"{gateway}/auth/callback", {})], "post_logout_redirect_uri": (f"{gateway}/", {}),
            "backchannel_logout_uri": f"{gateway}/auth/backchannel", "backchannel_logout_session_required": True,
            "response_types_supported": ["code"], "id_token_signed_response_alg": "RS256",
            "grant_types_supported": ["authorization_code", "refresh_token", TOKEN_EXCHANGE],
            "allowed_scopes": ["openid", "profile", "email", "offline_access"]}
        self.server.keyjar.add_symmetric("cloakroom", "cloakroom-client-secret")
        if jwks:
            self.server.keyjar.import_jwks(json.loads(jwks.read_text()), "cloakroom")

    def respond(self, method, path, target, parameters, fields):
        """The status, fields and body of a response."""
        if path == "/jwks":
            return 200, JSON, json.dumps(self.server.keyjar.export_jwks())
        if path.startswith("/verify/"):
            return self.verify(path.removeprefix("/verify/"), parameters)
        if path == "/verify_logout":
            return self.end_session(parameters)
        if path == "/test/rotate":
            return self.rotate(keeps_old=True)
        if path == "/test/forget":
            return self.rotate(keeps_old=False)
        if path not in self.endpoints:
            return 404, [], ""
        cookies = http.cookies.SimpleCookie(fields.get("Cookie", ""))
        request = {
            "method": method, "url": self.issuer + target,
            "headers": {name.lower(): value for name, value in fields.items() if name.lower() != "cookie"},
            "cookie": [{"name": name, "value": cookie.value} for name, cookie in cookies.items()]}
        return self.process(self.endpoints[path], parameters, request)

    def process(self, endpoint, parameters, http_info):
        try:
            request = endpoint.parse_request(parameters, http_info=http_info)
        except ClientAuthenticationError as error:
            return 401, JSON, json.dumps({"error": "invalid_client", "error_description": str(error)})
        except Exception as error:
            return 400, JSON, json.dumps({"error": "invalid_request", "error_description": str(error)})
        if isinstance(request, ResponseMessage) and "error" in request:
            return 401 if request["error"] == "invalid_client" else 400, JSON, request.to_json()
        result = endpoint.process_request(request, http_info=http_info)
        if "redirect_location" in result:
            return 302, [("Location", result["redirect_location"])], ""
        if "http_response" in result:
            return 200, [("Content-Type", "text/html")], result["http_response"]
        return self.format(endpoint, request, result)

    def format(self, endpoint, request, result):
        error = result["error"] if "error" in result else None
        members = {**result, "error": error} if error else result
        response = endpoint.do_response(request=request, **members)
        fields = list(response.get("http_headers", []))
        for cookie in response.get("cookie") or []:
            fields.append(("Set-Cookie", f"{cookie['name']}={cookie['value']}; Path=/; HttpOnly; SameSite=Lax"))
        if response.get("response_placement", endpoint.response_placement) == "url":
            return 302, [*fields, ("Location", response["response"])], ""
        return response.get("response_code", 400 if error else 200), fields, response["response"]

    def verify(self, name, form):
        """The form of the sign-in page."""
        method = self.server.context.authn_broker.get_method_by_id(name)
        try:
            user = method.verify(**form)
        except FailedAuthentication:
            return 403, [], "The user name or the password is wrong."
        state = method.unpack_token(form["token"])
        request = AuthorizationRequest().from_urlencoded(state["query"])
        endpoint = self.server.get_endpoint("authorization")
        session = endpoint.create_session(request, user, state["authn_class_ref"], state["iat"], method)
        return self.format(endpoint, request, endpoint.authz_part2(request=request, session_id=session))

    def end_session(self, parameters):
        """Where end_session redirects to: sends the logout tokens."""
        endpoint = self.server.get_endpoint("session")
        state = endpoint.unpack_signed_jwt(parameters["sjwt"])
        endpoint.do_verified_logout(sid=state["sid"])
        return 302, [("Location", state["redirect_uri"]), ("Set-Cookie", "op=; Path=/; Max-Age=0")], ""

    def rotate(self, keeps_old):
        bundle = build_key_bundle(KEYS)
        # The library stores the provider's keys under two names.
        for name in ("", self.issuer):
            bundles = self.server.keyjar.return_issuer(name)._bundles
            if keeps_old:
                bundles.insert(0, bundle)
            else:
                del bundles[1:]
        return 204, [], ""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    provider = None
    lock = threading.Lock()
    # A client may request these while a logout is sent to it, which happens under the lock.
    unlocked = {"/jwks", "/.well-known/openid-configuration"}

    def respond(self):
        target = urllib.parse.urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        text = target.query if self.command == "GET" else body
        parameters = dict(urllib.parse.parse_qsl(text, keep_blank_values=True))
        needs_lock = target.path not in self.unlocked
        if needs_lock:
            self.lock.acquire()
        try:
            status, fields, body = self.provider.respond(
                self.command, target.path, self.path, parameters, dict(self.headers))
        except Exception:
            traceback.print_exc()
            status, fields, body = 500, [], ""
        finally:
            if needs_lock:
                self.lock.release()
        data = body.encode()
        self.send_response(status)
        for name, value in [*fields, ("Content-Length", str(len(data)))]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = respond


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--gateway", required=True)
    parser.add_argument("--client-jwks", type=pathlib.Path)
    parser.add_argument("--token-seconds", type=int, default=60)
    arguments = parser.parse_args()
    Handler.provider = Provider(arguments)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", arguments.port), Handler)
    print("issuer", Handler.provider.issuer, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())
