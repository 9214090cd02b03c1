import Foundation
import TestSupport

/// The third-party Python package `websockets`, as a server and as a client.
struct PythonWebSockets {
    private let interpreter: URL
    private let directory: TemporaryDirectory

    init() async throws {
        directory = try TemporaryDirectory()
        try directory.write(Self.server, to: "server.py")
        try directory.write(Self.client, to: "client.py")
        interpreter = try await Executables.python(with: "websockets")
    }

    /// Runs an echo server while `body` runs; requests that are no WebSocket handshakes are forwarded to the API.
    func serving<R>(before api: String, _ body: (_ address: String) async throws -> R) async throws -> R {
        try await ChildProgram.running(interpreter, [directory.path(of: "server.py"), "\(api.port)"]) { program in
            let port = try await program.waits(for: "the server's port") { $0.lines.first.flatMap { Int($0) } }
            return try await body("http://127.0.0.1:\(port)")
        }
    }

    /// What a client does after it has connected.
    enum Task: String {
        /// Sends messages of every kind, expects their echoes, and closes.
        case talk
        /// Sends nothing until the server closes.
        case listen
        /// Sends messages continuously until the server closes.
        case chatter
    }

    /// Runs a client while `body` runs.
    func connecting<R>(
        to address: String, _ task: Task, cookie: String? = nil, body: (ChildProgram) async throws -> R
    ) async throws -> R {
        let url = address.replacingOccurrences(of: "http", with: "ws", range: address.range(of: "http"))
        let cookies = cookie.map { ["\(WebClient.cookieName)=\($0)"] } ?? []
        let arguments = [directory.path(of: "client.py"), url, task.rawValue] + cookies
        return try await ChildProgram.running(interpreter, arguments, body: body)
    }

    private static let server = """
        import asyncio
        import sys
        import websockets

        async def echo(connection, path=None):
            request = getattr(connection, "request", None)
            headers = request.headers if request is not None else connection.request_headers
            await connection.send(headers.get("Authorization", "nobody"))
            async for message in connection:
                await connection.send(message)

        def port(server):
            return list(server.sockets)[0].getsockname()[1]

        async def copy(reader, writer):
            try:
                while data := await reader.read(65536):
                    writer.write(data)
                    await writer.drain()
                writer.write_eof()
            except OSError:
                writer.close()

        async def main():
            async with websockets.serve(echo, "127.0.0.1", 0, max_size=None, subprotocols=["chat"]) as chat:
                async def relay(reader, writer):
                    try:
                        head = await reader.readuntil(b"\\r\\n\\r\\n")
                        to = port(chat) if b"Upgrade: websocket" in head else int(sys.argv[1])
                        back, forth = await asyncio.open_connection("127.0.0.1", to)
                    except (OSError, asyncio.IncompleteReadError):
                        return writer.close()
                    forth.write(head)
                    await asyncio.gather(copy(reader, forth), copy(back, writer))
                    forth.close()
                    writer.close()

                async with await asyncio.start_server(relay, "127.0.0.1", 0) as front:
                    print(port(front), flush=True)
                    await asyncio.Future()

        asyncio.run(main())
        """

    private static let client = """
        import asyncio
        import os
        import ssl
        import sys
        import websockets

        url, task, *cookies = sys.argv[1:]
        # The name of the argument changed with version 14.
        fields = "additional_headers" if int(websockets.__version__.split(".")[0]) >= 14 else "extra_headers"
        options = {fields: [("Cookie", cookie) for cookie in cookies]}
        if url.startswith("wss"):
            options["ssl"] = ssl._create_unverified_context()

        async def talk(connection):
            for message in ["hello", "", b"bytes", "\\u00fc" * 70000, os.urandom(3_000_000)]:
                await connection.send(message)
                assert await connection.recv() == message
            await (await connection.ping(b"anybody?"))
            print("talked", flush=True)

        async def chatter(connection):
            while True:
                await connection.send("x")
                await connection.recv()
                await asyncio.sleep(0.05)

        async def main():
            async with websockets.connect(url, max_size=None, subprotocols=["chat"], **options) as connection:
                print("connected", connection.subprotocol, await connection.recv(), flush=True)
                try:
                    if task == "talk":
                        await talk(connection)
                        await connection.close(1000)
                    elif task == "chatter":
                        await chatter(connection)
                    else:
                        await connection.recv()
                except websockets.ConnectionClosed:
                    pass
                print("closed", connection.close_code, flush=True)

        asyncio.run(main())
        """
}
