import Foundation
import TestSupport
import Testing

@testable import cloakroom_demo

/// Independent implementations of HTTP/2 as clients: their HPACK decoders and their flow control.
@Suite("HTTP/2 of curl, nghttp, Python h2 and HAProxy", .serialized, .timeLimit(.minutes(3)))
struct HTTP2ClientTests {
    /// Runs a gateway before an upstream whose responses have the fields of the request's query.
    private func serving(_ body: (GatewayProcess) async throws -> Void) async throws {
        let certificate = try DemoCertificate()
        defer { certificate.remove() }
        try await ScriptedServer.run([.silence]) { port, server in
            for (user, fields) in [
                ("alice", "Cache-Control: public\r\n"), ("bob", "Cache-Control: no-store\r\n"),
                ("large", "Location: /?\(Self.backslashes)\r\n"),
            ] {
                server.respond(
                    to: "GET /episodes?\(user)",
                    with: "HTTP/1.1 200 OK\r\nConnection: close\r\nX-User: \(user)\r\n\(fields)"
                        + "Content-Length: 2\r\n\r\nok")
            }
            let echo = "HTTP/1.1 200 OK\r\nConnection: close\r\nX-User: upload\r\nContent-Length: 2\r\n\r\nok"
            server.respond(to: "POST /upload", with: echo)
            var file = GatewayYAML(upstream: "http://127.0.0.1:\(port)")
            file.certificate = (certificate.certificateFile, certificate.keyFile)
            file.hasClearHTTP2 = true
            file.hasUpload = true
            try await GatewayProcess.running(file) { gateway in try await body(gateway) }
        }
    }

    /// Encoded with Huffman codes of 19 bits, these are larger than a frame.
    private static let backslashes = String(repeating: "\\", count: 7_900)
    private static let users = ["alice", "large", "bob", "alice", "large", "large", "bob"]

    @Test("Rule 53: curl and nghttp read each response's own fields, also after a head above one frame")
    func largeHeads() async throws {
        try await serving { gateway in
            let nghttp = try Executables.onPath("nghttp", package: "nghttp2-client")
            for address in [gateway.clear, try require(gateway.tls)] {
                let targets = Self.users.map { "\(address)/episodes?\($0)" }
                if address.hasPrefix("https") {
                    let fetched = try await Curl().run(["-sk", "--http2", "-D", "-"] + targets)
                    expect(fetched.ending.status, equals: 0, "\(fetched.errors)")
                    expect(Self.usersRead(in: fetched.output, "x-user: "), equals: Self.users)
                    expect(fetched.output.ranges(of: Self.backslashes).count, equals: 3)
                }
                let printed = try await ChildProgram.run(nghttp, ["-nv", "--no-verify-peer"] + Set(targets).sorted())
                expect(printed.ending.status, equals: 0, "\(printed.errors)")
                expect(Set(Self.usersRead(in: printed.output, "x-user: ")), equals: Set(Self.users))
                expect(printed.output.contains(Self.backslashes))
                expect(!printed.output.contains("error_code=PROTOCOL_ERROR"))
                expect(!printed.output.contains("COMPRESSION_ERROR"))
            }
        }
    }

    private static func usersRead(in text: String, _ name: String) -> [String] {
        text.split(whereSeparator: \.isNewline).compactMap { line in
            line.firstRange(of: name).map { line[$0.upperBound...].trimmingCharacters(in: .whitespaces) }
        }
    }

    @Test(
        "Rules 53 and 54: Python h2 reads each response's own fields, with any table size and window",
        arguments: [
            "", "HEADER_TABLE_SIZE=0", "HEADER_TABLE_SIZE=4294967295", "INITIAL_WINDOW_SIZE=1",
            "MAX_FRAME_SIZE=1048576",
        ])
    func pythonH2(setting: String) async throws {
        try await serving { gateway in
            let python = try await Executables.python(with: "h2")
            let directory = try TemporaryDirectory()
            try directory.write(Self.client, to: "client.py")
            for address in [gateway.clear, try require(gateway.tls)] {
                let result = try await ChildProgram.run(
                    python, [directory.path(of: "client.py"), address] + (setting.isEmpty ? [] : [setting]))
                expect(result.ending.status, equals: 0, "\(result.errors)")
                expect(result.output, equals: "140 responses\n", "\(result.output)")
            }
        }
    }

    @Test(
        "Rule 53: HAProxy as a client of the gateway over HTTP/2 gets each response's own fields",
        arguments: [true, false])
    func haproxy(hasTLS: Bool) async throws {
        try await serving { gateway in
            let haproxy = try Executables.onPath("haproxy", package: "haproxy")
            let directory = try TemporaryDirectory()
            let socket = directory.path(of: "front")
            let target = try hasTLS ? require(gateway.tls).port : gateway.clear.port
            try directory.write(
                """
                defaults
                    mode http
                    timeout connect 10s
                    timeout client 30s
                    timeout server 30s
                listen front
                    bind unix@\(socket)
                    server gateway 127.0.0.1:\(target) \(hasTLS ? "ssl verify none alpn h2" : "proto h2")

                """, to: "haproxy.cfg")
            try await ChildProgram.running(haproxy, ["-db", "-f", directory.path(of: "haproxy.cfg")]) { program in
                let curl = try Curl()
                let front = ["-s", "--unix-socket", socket]
                try await eventually("HAProxy serves") {
                    try await curl.run(front + ["http://localhost/episodes?alice"]).ending.status == 0
                }
                let targets = (0..<10).flatMap { _ in Self.users }.map { "http://localhost/episodes?\($0)" }
                let fetched = try await curl.run(front + ["-D", "-"] + targets)
                expect(Self.usersRead(in: fetched.output, "x-user: "), equals: (0..<10).flatMap { _ in Self.users })
                expect(fetched.output.ranges(of: Self.backslashes).count, equals: 30)
                let body = String(repeating: "0123456789", count: 100_000)
                try directory.write(body, to: "body")
                let uploaded = try await curl.run(
                    front + ["--data-binary", "@\(directory.path(of: "body"))", "http://localhost/upload"])
                expect(uploaded.output, equals: "ok")
                expect(program.isRunning)
            }
        }
    }

    /// Sends 140 requests on one connection, 70 one after another and 70 at the same time, and checks each response.
    private static let client = #"""
        import socket
        import ssl
        import sys
        import urllib.parse
        import h2.config
        import h2.connection
        import h2.events
        import h2.settings

        url = urllib.parse.urlsplit(sys.argv[1])
        sock = socket.create_connection((url.hostname, url.port), timeout=30)
        if url.scheme == "https":
            context = ssl._create_unverified_context()
            context.set_alpn_protocols(["h2"])
            sock = context.wrap_socket(sock, server_hostname=url.hostname)
            assert sock.selected_alpn_protocol() == "h2"
        connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        connection.initiate_connection()
        if len(sys.argv) > 2:
            name, value = sys.argv[2].split("=")
            connection.update_settings({h2.settings.SettingCodes[name]: int(value)})
        expected, heads, bodies, ended = {}, {}, {}, set()

        def request(user):
            stream = connection.get_next_available_stream_id()
            upload = user == "upload"
            connection.send_headers(stream, [
                (":method", "POST" if upload else "GET"), (":scheme", url.scheme), (":authority", url.netloc),
                (":path", "/upload" if upload else f"/episodes?{user}"), ("x-number", str(stream)),
                ("user-agent", "h2")] + [("content-length", "500")] * upload, end_stream=not upload)
            if upload:
                connection.send_data(stream, b"x" * 500, end_stream=False)
                connection.send_headers(stream, [("x-sum", "1")], end_stream=True)
            expected[stream] = user

        def receive():
            sock.sendall(connection.data_to_send())
            while len(ended) < len(expected):
                data = sock.recv(65536)
                assert data, "closed"
                for event in connection.receive_data(data):
                    if isinstance(event, h2.events.ResponseReceived):
                        heads[event.stream_id] = dict(event.headers)
                    elif isinstance(event, h2.events.DataReceived):
                        bodies[event.stream_id] = bodies.get(event.stream_id, b"") + event.data
                        connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                    elif isinstance(event, h2.events.StreamEnded):
                        ended.add(event.stream_id)
                    elif isinstance(event, (h2.events.StreamReset, h2.events.ConnectionTerminated)):
                        sys.exit(repr(event))
                sock.sendall(connection.data_to_send())

        users = ["alice", "large", "bob", "upload", "alice", "large", "bob"]
        for user in users * 10:
            request(user)
            receive()
        for user in users * 10:
            request(user)
        receive()
        for stream, user in expected.items():
            head = heads[stream]
            assert head[":status"] == "200" and head["x-user"] == user, (user, head)
            assert head.get("location", "") == ("/?" + "\\" * 7900 if user == "large" else ""), (user, head)
            if user in ("alice", "bob"):
                assert head["cache-control"] == {"alice": "public", "bob": "no-store"}[user], head
            assert bodies[stream] == b"ok", bodies
        print(len(expected), "responses")
        """#
}
