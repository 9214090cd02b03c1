import Foundation
import TestSupport
import Testing

@testable import cloakroom

/// Independent implementations of HTTP/2 and gRPC as upstreams.
@Suite("HTTP/2 to nghttpd, nginx, HAProxy and gRPC servers", .serialized, .timeLimit(.minutes(5)))
struct HTTP2UpstreamTests {
    private static func configuration(_ port: Int, isGRPC: Bool = false) -> String {
        """
        listeners: [{ address: "127.0.0.1:0", http2: true }]
        admin: { address: "127.0.0.1:0" }
        upstreams:
          api:
            targets: ["http://127.0.0.1:\(port)"]
            protocol: h2c
        limits: { body: 200MiB }
        session: { cookie: { secure: false } }
        routes:
          - name: all
            methods: [GET, POST, PUT]
            path: /*
            upstream: api
            requiresAuthorization: false
            grpc: \(isGRPC)

        """
    }

    /// Runs a peer, and a gateway with it as the upstream.
    private func serving(
        _ peer: URL, _ arguments: [String], port: Int, isGRPC: Bool = false,
        _ body: (GatewayProcess) async throws -> Void
    ) async throws {
        try await ChildProgram.running(peer, arguments) { program in
            try await eventually("the peer accepts connections") {
                try require(program.isRunning, "\(program.errors)")
                return await !RawPeer.isRejected(port: port)
            }
            try await GatewayProcess.running(yaml: Self.configuration(port, isGRPC: isGRPC)) { gateway in
                try await body(gateway)
            }
        }
    }

    /// Sends requests over HTTP/1.1 and HTTP/2, of which none may fail.
    private func load(_ gateway: GatewayProcess, _ path: String, count: Int, _ options: [String] = []) async throws {
        let h2load = try Executables.onPath("h2load", package: "nghttp2-client")
        for version in [["--h1"], []] {
            let result = try await ChildProgram.run(
                h2load,
                ["-n", "\(count)", "-c", "8", "-m", version.isEmpty ? "8" : "1", "-t", "1"] + version + options
                    + [gateway.clear + path])
            expect(result.ending.status, equals: 0, "\(result.errors)")
            expect(result.output.contains("\(count) succeeded, 0 failed, 0 errored, 0 timeout"), "\(result.output)")
            expect(result.output.contains("status codes: \(count) 2xx"), "\(result.output)")
        }
    }

    @Test("nghttpd with 10 streams a connection: many requests, and large bodies in both directions")
    func nghttpd() async throws {
        let nghttpd = try Executables.onPath("nghttpd", package: "nghttp2-server")
        let directory = try TemporaryDirectory()
        let port = try FreePort.next()
        let large = String(repeating: "0123456789abcdef", count: 640 * 1_024)
        try directory.write("hello", to: "a")
        try directory.write(large, to: "large")
        try await serving(
            nghttpd, ["--no-tls", "--max-concurrent-streams=10", "--echo-upload", "-d", directory.path, "\(port)"],
            port: port
        ) { gateway in
            try await load(gateway, "/a", count: 2_000)
            for version in ["--http1.1", "--http2-prior-knowledge"] {
                let curl = try Curl()
                let fetched = try await curl.run(["-s", version, gateway.clear + "/large"])
                expect(fetched.output, equals: large)
                let echoed = try await curl.run(
                    ["-s", version, "--data-binary", "@\(directory.path(of: "large"))", gateway.clear + "/a"])
                expect(echoed.output, equals: large)
            }
        }
    }

    @Test("nginx ends connections after 100 requests: no request fails, with or without a body")
    func nginx() async throws {
        let nginx = try Executables.onPath("nginx", package: "nginx-light")
        let directory = try TemporaryDirectory()
        let port = try FreePort.next()
        try directory.write("12345678", to: "body")
        try directory.write(
            """
            daemon off;
            master_process off;
            pid \(directory.path(of: "pid"));
            error_log stderr warn;
            events { worker_connections 512; }
            http {
                access_log off;
                client_body_temp_path \(directory.path(of: "bodies"));
                proxy_temp_path \(directory.path(of: "proxy"));
                fastcgi_temp_path \(directory.path(of: "fastcgi"));
                uwsgi_temp_path \(directory.path(of: "uwsgi"));
                scgi_temp_path \(directory.path(of: "scgi"));
                keepalive_requests 100;
                server {
                    listen 127.0.0.1:\(port) http2;
                    location / { return 200 "ok"; }
                }
            }

            """, to: "nginx.conf")
        let arguments = ["-p", directory.path, "-e", "stderr", "-c", directory.path(of: "nginx.conf")]
        try await serving(nginx, arguments, port: port) { gateway in
            try await load(gateway, "/a", count: 3_000)
            try await load(gateway, "/a", count: 1_000, ["-d", directory.path(of: "body")])
        }
    }

    @Test("HAProxy over HTTP/2 with prior knowledge")
    func haproxy() async throws {
        let haproxy = try Executables.onPath("haproxy", package: "haproxy")
        let directory = try TemporaryDirectory()
        let port = try FreePort.next()
        try directory.write(
            """
            defaults
                mode http
                timeout connect 10s
                timeout client 30s
                timeout server 30s
            frontend front
                bind 127.0.0.1:\(port) proto h2
                http-request return status 200 content-type text/plain string ok

            """, to: "haproxy.cfg")
        try await serving(haproxy, ["-db", "-f", directory.path(of: "haproxy.cfg")], port: port) { gateway in
            try await load(gateway, "/a", count: 2_000)
        }
    }

    @Test("The Python package h2: resets, large heads, GOAWAY and few streams concern only their requests")
    func pythonH2() async throws {
        let python = try await Executables.python(with: "h2")
        let directory = try TemporaryDirectory()
        let port = try FreePort.next()
        try directory.write(Self.h2Server, to: "server.py")
        try await serving(python, [directory.path(of: "server.py"), "\(port)"], port: port) { gateway in
            try await load(gateway, "/a", count: 500)
            let client = gateway.client
            for _ in 0..<201 { try await expect(client.get("/reset").status, equals: 502) }
            try await expect(client.get("/large").status, equals: 502)
            for _ in 0..<5 { try await expect(client.get("/away").status, equals: 200) }
            try await expect(client.get("/few").status, equals: 200)
            try await load(gateway, "/a", count: 500)
        }
    }

    private static let h2Server = """
        import socket, sys, threading
        import h2.config, h2.connection, h2.events, h2.settings

        lock = threading.Lock()
        seen = {"away": 0}

        def react(connection, stream, path):
            head = [(":status", "200"), ("content-type", "text/plain")]
            if path == "/reset":
                return connection.reset_stream(stream, error_code=2)
            if path == "/large":
                head.append(("x-large", "a" * 60000))
            if path == "/few":
                connection.update_settings({h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: 1})
            if path == "/away":
                with lock:
                    seen["away"] += 1
                    isFirst = seen["away"] % 2 == 1
                if isFirst:
                    return connection.close_connection(last_stream_id=0)
            connection.send_headers(stream, head)
            connection.send_data(stream, b"ok", end_stream=True)

        def serve(peer):
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
            connection.initiate_connection()
            peer.sendall(connection.data_to_send())
            paths = {}
            while data := peer.recv(65536):
                for event in connection.receive_data(data):
                    if isinstance(event, h2.events.RequestReceived):
                        paths[event.stream_id] = dict(event.headers)[b":path"].decode()
                    elif isinstance(event, h2.events.DataReceived):
                        connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                    elif isinstance(event, h2.events.StreamEnded):
                        if connection.state_machine.state != h2.connection.ConnectionState.CLOSED:
                            react(connection, event.stream_id, paths.pop(event.stream_id))
                peer.sendall(connection.data_to_send())
            peer.close()

        def run(peer):
            try:
                serve(peer)
            except OSError:
                pass

        listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
        while True:
            threading.Thread(target=run, args=(listener.accept()[0],), daemon=True).start()
        """

    @Test("grpcio as client and server: all kinds of call, statuses, deadlines, and connections that end after 1 s")
    func grpcio() async throws {
        let python = try await Executables.python(with: "grpc")
        let directory = try TemporaryDirectory()
        let port = try FreePort.next()
        try directory.write(Self.grpcServer, to: "server.py")
        try directory.write(Self.grpcClient, to: "client.py")
        try await serving(python, [directory.path(of: "server.py"), "\(port)"], port: port, isGRPC: true) { gateway in
            let result = try await ChildProgram.run(
                python, [directory.path(of: "client.py"), "127.0.0.1:\(gateway.clear.port)"])
            expect(result.ending.status, equals: 0, "\(result.errors)")
            expect(result.output.hasSuffix("done\n"), "\(result.output)\(result.errors)")
        }
    }

    private static let grpcServer = """
        import sys, time
        from concurrent import futures
        import grpc

        def unary(request, context):
            context.set_trailing_metadata((("x-end", "1"),))
            return request + b"!"

        def stream_out(request, context):
            for index in range(int(request)):
                yield b"%d" % index

        def stream_in(requests, context):
            return b"%d" % sum(len(request) for request in requests)

        def both(requests, context):
            for request in requests:
                yield request + b"?"

        def fail(request, context):
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not now: \\u00e9")

        def slow(request, context):
            time.sleep(10)
            return b""

        class Handler(grpc.GenericRpcHandler):
            def service(self, details):
                return {
                    "/s/Unary": grpc.unary_unary_rpc_method_handler(unary),
                    "/s/Out": grpc.unary_stream_rpc_method_handler(stream_out),
                    "/s/In": grpc.stream_unary_rpc_method_handler(stream_in),
                    "/s/Both": grpc.stream_stream_rpc_method_handler(both),
                    "/s/Fail": grpc.unary_unary_rpc_method_handler(fail),
                    "/s/Slow": grpc.unary_unary_rpc_method_handler(slow),
                }.get(details.method)

        server = grpc.server(futures.ThreadPoolExecutor(16), options=[
            ("grpc.max_connection_age_ms", 1000), ("grpc.max_concurrent_streams", 10),
            ("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)])
        server.add_generic_rpc_handlers((Handler(),))
        server.add_insecure_port("127.0.0.1:" + sys.argv[1])
        server.start()
        server.wait_for_termination()
        """

    private static let grpcClient = """
        import queue, sys, time
        from concurrent import futures
        import grpc

        channel = grpc.insecure_channel(sys.argv[1], options=[
            ("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)])
        unary = channel.unary_unary("/s/Unary")
        reply, call = unary.with_call(b"hello", timeout=10)
        assert reply == b"hello!", reply
        assert ("x-end", "1") in [tuple(pair) for pair in call.trailing_metadata()]
        large = b"x" * 4_000_000
        assert unary(large, timeout=30) == large + b"!"
        assert [int(part) for part in channel.unary_stream("/s/Out")(b"500", timeout=30)] == list(range(500))
        assert channel.stream_unary("/s/In")(iter([b"abc"] * 300), timeout=30) == b"900"
        sent = queue.Queue()
        replies = channel.stream_stream("/s/Both")(iter(sent.get, None), timeout=30)
        for index in range(20):
            sent.put(b"%d" % index)
            assert next(replies) == b"%d?" % index
        sent.put(None)
        assert list(replies) == []

        def status(method, timeout=10):
            try:
                channel.unary_unary(method)(b"", timeout=timeout)
            except grpc.RpcError as error:
                return error.code().name, error.details()

        assert status("/s/Fail") == ("FAILED_PRECONDITION", "not now: \\u00e9"), status("/s/Fail")
        assert status("/s/Nothing")[0] == "UNIMPLEMENTED"
        start = time.time()
        assert status("/s/Slow", 0.3)[0] == "DEADLINE_EXCEEDED"
        assert time.time() - start < 9
        # The server ends each connection after a second.
        with futures.ThreadPoolExecutor(8) as pool:
            end = time.time() + 4
            def work(number):
                count = 0
                while time.time() < end:
                    text = b"%d-%d" % (number, count)
                    assert unary(text, timeout=10) == text + b"!"
                    count += 1
                return count
            counts = list(pool.map(work, range(8)))
        assert sum(counts) > 100, counts
        print("done")
        """
}
