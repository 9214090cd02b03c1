"""An API that accepts each sign-in: asyncio, one process. `user-NUMBER@example.com` is the user with this number; each
sign-in with another name is that of a new user.

usage: python3 -m scenarios.sign_in_origin PORT ACCESS_BYTES REFRESH_BYTES [LIFETIME]

POST /auth            an access token and a refresh token of these lengths, which expires after LIFETIME seconds
POST /auth/refresh    the same for the user of the refresh token
GET  any path         the user of the access token
"""

import asyncio
import base64
import gc
import json
import re
import sys


class Connection(asyncio.Protocol):
    def __init__(self, api):
        self.api, self.buffer, self.transport = api, b"", None

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            original = self.buffer[:end]
            head = original.lower()
            position = head.find(b"\r\ncontent-length:")
            length = int(head[position + 17 :].split(b"\r\n", 1)[0]) if position >= 0 else 0
            if len(self.buffer) < end + 4 + length:
                return
            self.buffer = self.buffer[end + 4 + length :]
            self.respond(head, original)

    def respond(self, head, original):
        if head.startswith(b"post /auth "):
            position = head.find(b"authorization: basic ") + 21
            document = self.api.sign_in(base64.b64decode(original[position:].split(b"\r\n", 1)[0]))
        elif head.startswith(b"post"):
            document = self.api.tokens(self.bearer(head))
        else:
            number = self.bearer(head)
            document = {"id": number, "email": f"user-{number}@example.com", "name": "Some One"}
        body = json.dumps(document, separators=(",", ":")).encode()
        start = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.transport.write(start.encode() + body)

    @staticmethod
    def bearer(head):
        """The number of the user whose token the request has; 0 with a token of a provider."""
        number = head.partition(b"authorization: bearer ")[2][:8]
        return int(number) if number.isdigit() else 0


class API:
    def __init__(self, access, refresh, lifetime=None):
        self.access, self.refresh, self.count = access, refresh, 0
        self.more = {} if lifetime is None else {"expiresIn": lifetime}

    def sign_in(self, credentials):
        self.count += 1
        number = re.match(rb"user-(\d{1,8})@", credentials)
        return self.tokens(int(number[1]) if number else self.count)

    def tokens(self, user):
        number = f"{user:08}"
        tokens = {"accessToken": number.ljust(self.access, "a"), "refreshToken": number.ljust(self.refresh, "r")}
        return tokens | self.more


async def main(port, *settings):
    api = API(*settings)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(api), "127.0.0.1", port, backlog=1024)
    gc.disable()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
