#!/usr/bin/env python3
"""The API of the tutorial: notes of users that sign in with other names than the gateway's defaults.

usage: deploy/tutorial/notes_api.py [--port PORT] [--lifetime SECONDS]

    POST   /sessions  {"login", "passphrase"}  201 {"jwt", "again", "lifetime"}, or 401
    PUT    /sessions  {"again"}                200 with new tokens, or 401; an `again` is valid once
    DELETE /sessions  {"again"}                204
    GET    /profile   Bearer                   200 {"profile": {"login", "name"}}
    GET    /notes     Bearer                   200, the notes of the user
    GET    /status                             200

One user: mia with the passphrase `correct horse`. Tokens are random and kept in memory. Prints a line for each request.
"""

import argparse
import json
import secrets
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

USERS = {"mia": {"passphrase": "correct horse", "name": "Mia", "notes": ["buy milk", "call Jo"]}}


class Tokens:
    """Access tokens with their expiry, and refresh tokens, each with the login of a user."""

    def __init__(self, lifetime):
        self.lifetime = lifetime
        self.access = {}
        self.refresh = {}

    def issue(self, login):
        jwt, again = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self.access[jwt] = (login, time.monotonic() + self.lifetime)
        self.refresh[again] = login
        return {"jwt": jwt, "again": again, "lifetime": self.lifetime}

    def login_of(self, authorization):
        scheme, _, token = authorization.partition(" ")
        login, expiry = self.access.get(token, (None, 0))
        return login if scheme.lower() == "bearer" and time.monotonic() < expiry else None


class NotesAPI(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body in one segment: separate ones wait for each other's acknowledgement.
    wbufsize = -1
    tokens: Tokens

    def respond(self, status, document=None):
        body = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def document(self):
        try:
            found = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def do_POST(self):
        given = self.document()
        user = USERS.get(given.get("login"))
        if self.path != "/sessions":
            self.respond(404, {"reason": "not_found"})
        elif user and secrets.compare_digest(str(given.get("passphrase")).encode(), user["passphrase"].encode()):
            self.respond(201, self.tokens.issue(given["login"]))
        else:
            self.respond(401, {"reason": "bad_login"})

    def do_PUT(self):
        login = self.tokens.refresh.pop(self.document().get("again"), None)
        if self.path != "/sessions":
            self.respond(404, {"reason": "not_found"})
        elif login:
            self.respond(200, self.tokens.issue(login))
        else:
            self.respond(401, {"reason": "unknown_token"})

    def do_DELETE(self):
        self.tokens.refresh.pop(self.document().get("again"), None)
        self.respond(204 if self.path == "/sessions" else 404)

    def do_GET(self):
        login = self.tokens.login_of(self.headers.get("Authorization", ""))
        if self.path == "/status":
            self.respond(200, {"status": "open"})
        elif self.path not in ("/profile", "/notes"):
            self.respond(404, {"reason": "not_found"})
        elif not login:
            self.respond(401, {"reason": "unknown_token"})
        elif self.path == "/profile":
            self.respond(200, {"profile": {"login": login, "name": USERS[login]["name"]}})
        else:
            self.respond(200, {"notes": USERS[login]["notes"]})

    def log_message(self, format, *arguments):
        print(f"{self.command} {self.path} {arguments[1]}", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--lifetime", type=int, default=300, help="of an access token, in seconds")
    arguments = parser.parse_args()
    NotesAPI.tokens = Tokens(arguments.lifetime)
    server = ThreadingHTTPServer(("127.0.0.1", arguments.port), NotesAPI)
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
