"""An upstream that accepts access tokens for its audience until their end, and WebSockets: asyncio, one process.

usage: python3 -m scenarios.audience_origin PORT

GET  /plain…      200, whatever the request contains
GET  /seen        {path: {"requests": N, "tokens": N}}: the requests with an accepted token, and how many tokens these were,
                  by the first part of the path
GET  /NAME…       200 if the token's audience is https://NAME.example.com, 403 if it is another one, 401 without a token
                  or after its end. With Upgrade: a WebSocket that stays open

Signatures are not verified: the tokens come from a provider of the same test.
"""

import asyncio
import base64
import collections
import gc
import hashlib
import json
import sys
import time

ACCEPT = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def claims(token):
    """The claims of a JWT."""
    payload = token.split(b".")[1]
    return json.loads(base64.urlsafe_b64decode(payload + b"=" * (-len(payload) % 4)))


class Connection(asyncio.Protocol):
    def __init__(self, seen):
        self.seen, self.buffer, self.transport = seen, b"", None
        self.is_tunnel = False

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        if self.is_tunnel:
            return
        self.buffer += data
        while not self.is_tunnel and (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head, self.buffer = self.buffer[:end], self.buffer[end + 4 :]
            self.respond(head)

    def respond(self, head):
        start, *lines = head.split(b"\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        path = start.split(b" ")[1].decode("latin-1")
        name = path.split("/")[1].partition("?")[0]
        if name == "seen":
            found = {name: {"requests": seen["requests"], "tokens": len(seen["tokens"])} for name, seen in self.seen.items()}
            self.send(200, found)
        elif name == "plain":
            self.send(200, {"path": path})
        else:
            status = self.judge(name, fields.get(b"authorization", b""))
            if status == 200 and b"sec-websocket-key" in fields:
                self.upgrade(fields[b"sec-websocket-key"])
            else:
                self.send(status, {"path": path})

    def judge(self, name, authorization):
        scheme, _, token = authorization.partition(b" ")
        if scheme != b"Bearer":
            return 401
        content = claims(token)
        if content["exp"] <= time.time():
            return 401
        if content["aud"] != f"https://{name}.example.com":
            return 403
        self.seen[name]["requests"] += 1
        self.seen[name]["tokens"].add(token)
        return 200

    def send(self, status, document):
        body = json.dumps(document).encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.transport.write(head.encode() + body)

    def upgrade(self, key):
        self.is_tunnel = True
        accept = base64.b64encode(hashlib.sha1(key + ACCEPT).digest())
        head = b"HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %b\r\n\r\n"
        self.transport.write(head % accept)


async def main(port):
    seen = collections.defaultdict(lambda: {"requests": 0, "tokens": set()})
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(seen), "127.0.0.1", port, backlog=4096)
    gc.disable()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
