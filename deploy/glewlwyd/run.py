#!/usr/bin/env python3
"""Runs glewlwyd as an OpenID Provider on loopback, with one user and one confidential client.

usage: deploy/glewlwyd/run.py --folder FOLDER --port PORT --gateway URL [--back-channel URL] [--client-jwks FILE]
       [--token-seconds N] [--api-client]

Prints `issuer URL` when it is ready, and runs until it is ended. FOLDER keeps nothing of an earlier run. The program must
be on the path; install.sh provides it.

User: jo / secret, with the e-mail address jo@example.com and the groups staff and "a, b".
Client: cloakroom / cloakroom-client-secret, with the callback, the back-channel endpoint and the root of the gateway.
With --api-client also batch / batch-client-secret, which gets access tokens for the user's password, bound to its key if it
sends a proof. Their scopes orders and billing are also their audience.
"""

import argparse
import ctypes
import http.cookiejar
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

ADMINISTRATOR = {"username": "admin", "password": "password"}  # As the package's database has it.


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--gateway", required=True, help="scheme, host and port of the gateway")
    parser.add_argument("--back-channel", help="where logouts are reported; by default below the gateway's /auth")
    parser.add_argument("--client-jwks", type=pathlib.Path, help="public keys of the gateway for private_key_jwt")
    parser.add_argument("--token-seconds", type=int, default=60, help="lifetime of access tokens and ID tokens")
    parser.add_argument("--api-client", action="store_true", help="register a client for access tokens")
    return parser.parse_args()


class API:
    """The administration API of glewlwyd, as a signed-in administrator."""

    def __init__(self, port):
        self.base = f"http://127.0.0.1:{port}/api"
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        # Proxies of the environment do not apply.
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), cookies)

    def send(self, method, path, document=None):
        body = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(
            self.base + path, body, {"Content-Type": "application/json"}, method=method)
        try:
            with self.opener.open(request, timeout=10) as response:
                return json.loads(response.read() or b"null")
        except urllib.error.HTTPError as error:
            sys.exit(f"glewlwyd: {method} {path}: {error.code} {error.read().decode()}")

    def store_properties(self, module, properties):
        """Extends the properties that the database of users or clients stores."""
        settings = self.send("GET", f"/mod/{module}/database")
        for name in properties:
            settings["parameters"]["data-format"][name] = {
                "multiple": True, "read": True, "write": True, "profile-read": True, "profile-write": False}
        self.send("PUT", f"/mod/{module}/database", settings)
        self.send("PUT", f"/mod/{module}/database/reset/", {})


def create_database(program, folder):
    schema = program.parent.parent / "share/dbconfig-common/data/glewlwyd/install/sqlite3"
    with schema.open() as script:
        subprocess.run(["sqlite3", folder / "glewlwyd.db"], stdin=script, check=True)


def create_key(folder):
    """An EC key for the signatures, without leading zeros: glewlwyd omits them in its key set, which RFC 7518 §6.2.1.2
    does not permit. A key of the scripted provider of the tests has them."""
    private, public = folder / "key.pem", folder / "public.pem"
    while True:
        subprocess.run(
            ["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", private],
            check=True, stderr=subprocess.DEVNULL)
        subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
        der = subprocess.run(
            ["openssl", "pkey", "-in", private, "-pubout", "-outform", "DER"], check=True, capture_output=True).stdout
        if der[-64] and der[-32]:
            return private.read_text(), public.read_text()


# The types of the files of its web pages.
MEDIA_TYPES = {
    ".html": "text/html", ".css": "text/css", ".js": "application/javascript", ".json": "application/json",
    ".png": "image/png", ".ttf": "font/ttf", ".woff": "font/woff", ".woff2": "font/woff2"}


def copy_pages(program, folder):
    """The lines of the configuration for the web pages of the program; none if it has none. Tests need no pages."""
    source, pages = program.parent.parent / "share/glewlwyd", folder / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    if not (source / "webapp/login.html").exists():
        return []
    # The link to its configuration leads out of the package.
    shutil.copytree(source / "webapp", pages, ignore=shutil.ignore_patterns("config.json"))
    shutil.copy(source / "templates/config.json", pages)
    types = [
        f'{{ extension = "{extension}"; mime_type = "{media_type}"; compress = 0; }}'
        for extension, media_type in MEDIA_TYPES.items()]
    return [f"static_files_path = {json.dumps(str(pages))}", f"static_files_mime_types = ( {', '.join(types)} )"]


def write_configuration(program, folder, port):
    modules = program.parent.parent / "lib/glewlwyd"
    values = {
        "port": port, "bind_address": "127.0.0.1", "external_url": f"http://127.0.0.1:{port}", "api_prefix": "api",
        "login_url": "login.html", "log_mode": "console", "log_level": "WARNING", "cookie_secure": 0,
        "session_expiration": 86_400, "session_key": "GLEWLWYD2_SESSION_ID", "admin_scope": "g_admin",
        "profile_scope": "g_profile", "user_module_path": f"{modules}/user", "client_module_path": f"{modules}/client",
        "user_auth_scheme_module_path": f"{modules}/scheme", "plugin_module_path": f"{modules}/plugin",
        "hash_algorithm": "SHA512"}
    lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    lines.append(f'database = {{ type = "sqlite3"; path = {json.dumps(str(folder / "glewlwyd.db"))}; }};')
    lines += copy_pages(program, folder)
    path = folder / "glewlwyd.conf"
    path.write_text("\n".join(lines) + "\n")
    return path


def die_with_parent():
    """The process ends with this one, even if this one is killed (prctl(2), PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def wait_until_ready(process, port):
    deadline = time.monotonic() + 30
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < deadline and process.poll() is None:
        try:
            opener.open(f"http://127.0.0.1:{port}/config", timeout=2).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit("glewlwyd: it did not start; its output is above")


def provider_settings(issuer, key, token_seconds, has_api_client):
    """The parameters of the plugin for OpenID Connect."""
    private, public = key
    # Without front-channel logout, the page of a sign-out fails.
    enabled = [
        "oauth-as-iss-id", "jwks-show", "allow-non-oidc", "auth-type-code-enabled", "auth-type-code-revoke-replayed",
        "auth-type-refresh-enabled", "pkce-allowed", "pkce-required", "request-parameter-allow",
        "introspection-revocation-allowed", "introspection-revocation-allow-target-client",
        "session-management-allowed", "front-channel-logout-allowed", "back-channel-logout-allowed", "oauth-par-allowed"]
    disabled = [
        "refresh-token-rolling", "auth-type-token-enabled", "auth-type-client-enabled", "auth-type-device-enabled",
        "pkce-method-plain-allowed", "oauth-par-required"]
    groups = {"name": "groups", "user-property": "groups", "type": "string", "mandatory": True, "on-demand": False, "scope": []}
    return {
        **dict.fromkeys(enabled, True), **dict.fromkeys(disabled, False),
        "auth-type-password-enabled": has_api_client, "oauth-dpop-allowed": has_api_client,
        "oauth-dpop-iat-duration": 60,
        "iss": issuer, "jwt-type": "ecdsa", "jwt-key-size": "256", "key": private, "cert": public,
        "code-duration": 60, "access-token-duration": token_seconds, "refresh-token-duration": 3_600,
        "refresh-token-one-use": "always", "client-jwks-parameter": "jwks", "request-maximum-exp": 300,
        "session-cookie-name": "GLEWLWYD2_OIDC_SID", "session-cookie-expiration": 86_400, "oauth-par-duration": 90,
        "oauth-par-request_uri-prefix": "urn:ietf:params:oauth:request_uri:", "scope-claim": "no",
        "name-claim": "on-demand", "name-claim-scope": ["profile"], "email-claim": "on-demand",
        "email-claim-scope": ["email"], "claims": [groups]}


def set_up(arguments, issuer, key):
    api = API(arguments.port)
    api.send("POST", "/auth/", ADMINISTRATOR)
    api.store_properties("user", ["groups"])
    api.store_properties("client", ["post_logout_redirect_uris"])
    api.send("POST", "/mod/plugin/", {
        "module": "oidc", "name": "oidc", "display_name": "OpenID Connect", "enabled": True,
        "parameters": provider_settings(issuer, key, arguments.token_seconds, arguments.api_client)})
    api_scopes = ["orders", "billing"] if arguments.api_client else []
    for scope in ["profile", "email", *api_scopes]:
        api.send("POST", "/scope/", {
            "name": scope, "display_name": scope, "password_required": False, "scheme": {}})
    api.send("PUT", "/scope/openid", {
        "display_name": "openid", "description": "openid", "password_required": True, "password_max_age": 0,
        "scheme": {}})
    api.send("POST", "/user/", {
        "username": "jo", "password": "secret", "name": "Jo Example", "email": "jo@example.com", "enabled": True,
        "groups": ["staff", "a, b"], "scope": ["openid", "profile", "email", *api_scopes]})
    if arguments.api_client:
        api.send("POST", "/client/", {
            "client_id": "batch", "client_secret": "batch-client-secret", "name": "Batch", "confidential": True,
            "enabled": True, "authorization_type": ["password"],
            "token_endpoint_auth_method": ["client_secret_basic"]})
    client = {
        "client_id": "cloakroom", "client_secret": "cloakroom-client-secret", "name": "Cloakroom", "confidential": True,
        "enabled": True, "authorization_type": ["code", "refresh_token"],
        "token_endpoint_auth_method": ["client_secret_basic", "client_secret_post"],
        "redirect_uri": [f"{arguments.gateway}/auth/callback"],
        "post_logout_redirect_uris": [f"{arguments.gateway}/"],
        "backchannel_logout_uri": arguments.back_channel or f"{arguments.gateway}/auth/backchannel",
        "backchannel_logout_session_required": "true"}
    if arguments.client_jwks:
        client["jwks"] = json.loads(arguments.client_jwks.read_text())
        client["token_endpoint_auth_method"].append("private_key_jwt")
    api.send("POST", "/client/", client)


def main():
    arguments = parse_arguments()
    found = shutil.which("glewlwyd")
    if not found:
        sys.exit("glewlwyd: the program is not on the path; deploy/glewlwyd/install.sh provides it")
    program, folder = pathlib.Path(found).resolve(), arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "glewlwyd.db").unlink(missing_ok=True)
    create_database(program, folder)
    key = create_key(folder)
    configuration = write_configuration(program, folder, arguments.port)
    process = subprocess.Popen(
        [program, f"--config-file={configuration}"], stdin=subprocess.DEVNULL, stdout=sys.stderr,
        preexec_fn=die_with_parent)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        wait_until_ready(process, arguments.port)
        issuer = f"http://127.0.0.1:{arguments.port}/api/oidc"
        set_up(arguments, issuer, key)
        print("issuer", issuer, flush=True)
        sys.exit(process.wait())
    except KeyboardInterrupt:
        pass
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
