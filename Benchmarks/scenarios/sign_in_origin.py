"""An API that accepts each sign-in, each as an account of its own: asyncio, one process.

usage: python3 -m scenarios.sign_in_origin PORT ACCESS_BYTES REFRESH_BYTES

POST /auth   an access token and a refresh token of these lengths
GET  /user   the user of the access token
"""

import asyncio
import gc
import json
import sys


class Connection(asyncio.Protocol):
    def __init__(self, api):
        self.api, self.buffer, self.transport = api, b"", None

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            position = head.find(b"\r\ncontent-length:")
            length = int(head[position + 17 :].split(b"\r\n", 1)[0]) if position >= 0 else 0
            if len(self.buffer) < end + 4 + length:
                return
            self.buffer = self.buffer[end + 4 + length :]
            self.respond(head)

    def respond(self, head):
        if head.startswith(b"post"):
            document = self.api.sign_in()
        else:
            number = int(head.partition(b"authorization: bearer ")[2][:8])
            document = {"id": number, "email": f"user-{number}@example.com", "name": "Some One"}
        body = json.dumps(document, separators=(",", ":")).encode()
        start = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.transport.write(start.encode() + body)


class API:
    def __init__(self, access, refresh):
        self.access, self.refresh, self.count = access, refresh, 0

    def sign_in(self):
        self.count += 1
        number = f"{self.count:08}"
        return {"accessToken": number.ljust(self.access, "a"), "refreshToken": number.ljust(self.refresh, "r")}


async def main(port, access, refresh):
    api = API(access, refresh)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(api), "127.0.0.1", port, backlog=1024)
    gc.disable()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
