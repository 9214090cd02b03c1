import Foundation
import TestSupport
import Testing

/// A development server behind the gateway, as the guide describes it.
@Suite("A development server", .serialized, .timeLimit(.minutes(2)))
struct DevelopmentServerTests {
    /// Serves a page that reloads by a WebSocket or an event stream once `/touch` was requested. Like Vite, it rejects
    /// hosts that it does not know.
    private static let server = """
        import base64, hashlib, http.server, threading

        changed = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                if self.headers["Host"] != "127.0.0.1:%d" % self.server.server_port:
                    self.respond(403, "unknown host")
                elif self.headers.get("Upgrade") == "websocket":
                    key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
                    self.send_response(101)
                    self.send_header("Upgrade", "websocket")
                    self.send_header("Connection", "Upgrade")
                    self.send_header("Sec-WebSocket-Protocol", self.headers["Sec-WebSocket-Protocol"])
                    self.send_header(
                        "Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
                    self.end_headers()
                    self.report(b"\\x81\\x06reload")
                elif self.path == "/events":
                    self.send_response(200)
                    self.send_header("Content-Type", "text/event-stream")
                    self.send_header("Connection", "close")
                    self.end_headers()
                    self.report(b"data: reload\\n\\n")
                else:
                    if self.path == "/touch":
                        changed.set()
                    self.respond(200, "page of " + self.path)

            def respond(self, status, text):
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def report(self, message):
                self.wfile.flush()
                if changed.wait(60):
                    self.wfile.write(message)
                self.close_connection = True

            def log_message(self, *arguments):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        print(server.server_port, flush=True)
        server.serve_forever()
        """

    private static func yaml(port: Int) -> String {
        """
        listeners: [{ address: "0.0.0.0:0", development: true }]
        admin: { address: "127.0.0.1:0" }
        session: { cookie: { secure: false } }
        pages: { errors: true, name: Acme }
        upstreams: { vite: { targets: ["http://127.0.0.1:\(port)"], preserveHost: false } }
        routes:
          - { name: app, methods: [GET], path: /*, upstream: vite, requiresAuthorization: false, websocket: true }

        """
    }

    private static func get(_ path: String, host: String = "localhost", _ fields: String...) -> String {
        (["GET \(path) HTTP/1.1", "Host: \(host)"] + fields).joined(separator: "\r\n") + "\r\n\r\n"
    }

    @Test("Rule 100: pages reload by WebSocket and event stream on any address, and other hosts get a page with 421")
    func reload() async throws {
        let directory = try TemporaryDirectory()
        try directory.write(Self.server, to: "server.py")
        let interpreter = try await Executables.python(with: "http.server")
        try await ChildProgram.running(interpreter, [directory.path(of: "server.py")]) { program in
            let upstream = try await program.waits(for: "the server's port") { $0.lines.first.flatMap { Int($0) } }
            try await GatewayProcess.running(yaml: Self.yaml(port: upstream)) { gateway in
                let port = gateway.clear.port
                let page = try await RawPeer.connect(port: port)
                page.send(Self.get("/src/main.ts", host: "app.localhost:\(port)"))
                try await expect(page.head().hasPrefix("HTTP/1.1 200 "))
                try await expect(page.text(20), equals: "page of /src/main.ts")

                let socket = try await RawPeer.connect(port: port)
                socket.send(
                    Self.get(
                        "/?token=a", "Origin: http://localhost", "Connection: Upgrade", "Upgrade: websocket",
                        "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
                        "Sec-WebSocket-Protocol: vite-hmr"))
                let accepted = try await socket.head()
                expect(accepted.hasPrefix("HTTP/1.1 101 "))
                expect(accepted.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="))
                let events = try await RawPeer.connect(port: port)
                events.send(Self.get("/events", "Accept: text/event-stream"))
                try await expect(events.head().contains("text/event-stream"))
                page.send(Self.get("/touch"))
                try await eventually("the WebSocket's message") { socket.unread.contains("reload") }
                try await eventually("the event") { events.unread.contains("data: reload\n\n") }

                let foreign = try await RawPeer.connect(port: port)
                foreign.send(Self.get("/", host: "evil.example:\(port)", "Accept: text/html"))
                let head = try await foreign.head()
                expect(head.hasPrefix("HTTP/1.1 421 "))
                expect(head.contains("Cache-Control: no-store\r\n"))
                try await eventually("the page") { foreign.unread.contains("</html>") }
                expect(foreign.unread.contains("<title>Misdirected Request – Acme</title>"))
            }
        }
    }
}
