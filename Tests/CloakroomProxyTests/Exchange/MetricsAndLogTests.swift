import CloakroomCore
import CloakroomTelemetry
import TestSupport
import Testing

@Suite("Metrics and access log of exchanges", .serialized)
struct MetricsAndLogTests {
    @Test("Every exchange is counted once, with its route name and outcome")
    func counters() async throws {
        try await GatewaySetup.serving.run { gateway, client in
            for _ in 0..<3 { _ = try await client.exchange(Ask.get("/public/x")) }
            _ = try await client.exchange(Ask.get("/private/x", Ask.cookie))
            _ = try await client.exchange(Ask.get("/private/x"))
            _ = try await client.exchange(Ask.get("/nowhere"))
            _ = try await client.exchange(Ask.get("/auth"))
            try await gateway.metric("cloakroom_auth_decisions_total{decision=\"public\",route=\"public\"} 3")
            try await gateway.metric("cloakroom_auth_decisions_total{decision=\"forwarded\",route=\"private\"} 1")
            try await gateway.metric("cloakroom_auth_decisions_total{decision=\"unauthenticated\",route=\"private\"} 1")
            try await gateway.metric("http_server_active_requests{http_request_method=\"GET\",url_scheme=\"http\"} 0")
            for (route, pattern, status, count) in [
                ("public", "/public/*", 200, 3), ("private", "/private/*", 200, 1), ("private", "/private/*", 401, 1),
                ("(unmatched)", "", 404, 1), ("(accounts)", "/auth", 200, 1),
            ] {
                try await eventually("the count of \(route) \(status)") {
                    gateway.metrics.split(separator: "\n").contains {
                        $0.hasPrefix("http_server_request_duration_seconds_count{")
                            && $0.contains(",http_route=\"\(pattern)\",") && $0.contains(",route=\"\(route)\",")
                            && $0.contains("http_response_status_code=\"\(status)\"") && $0.hasSuffix(" \(count)")
                    }
                }
            }
            try await gateway.metric("cloakroom_upstream_connections{state=\"idle\",upstream=\"api\"} 1")
            try await gateway.metric("cloakroom_upstream_connections{state=\"active\",upstream=\"api\"} 0")
            expect(!gateway.metrics.contains("canary"))
            expect(!gateway.metrics.contains("/public/x"))
        }
    }

    @Test("A connection in use is active, and a lost one is neither active nor idle")
    func connections() async throws {
        let gate = Gate()
        try await GatewaySetup([.request, .wait(gate), .close]).run { gateway, client in
            client.send(Ask.get())
            _ = try await gateway.upstream.request()
            try await gateway.metric("cloakroom_upstream_connections{state=\"active\",upstream=\"api\"} 1")
            gate.open()
            try await expect(client.response().status, equals: 502)
            try await gateway.metric("cloakroom_upstream_connections{state=\"active\",upstream=\"api\"} 0")
            try await gateway.metric("cloakroom_upstream_connections{state=\"idle\",upstream=\"api\"} 0")
        }
    }

    @Test("A local response is not counted as a response of the upstream")
    func upstreamStatus() async throws {
        try await GatewaySetup([.request, .close]).run { gateway in
            _ = try await gateway.client().exchange(Ask.get())
            try await gateway.metric("cloakroom_auth_decisions_total{decision=\"public\",route=\"public\"} 1")
            let line = try await eventually("the duration of the call") {
                gateway.metrics.split(separator: "\n").first {
                    $0.hasPrefix("http_client_request_duration_seconds_count{")
                }
            }
            expect(line.contains("error_type=\"upstream_reset\""))
            expect(!line.contains("502"))
        }
    }

    @Test("An exchange is one line of the access log with all members and no secrets")
    func accessLog() async throws {
        let setup = GatewaySetup.serving
        let made = FakeSessions.make()
        let cookie = setup.sessions.add(made)
        let (lines, text) = try await setup.logged { gateway in
            let client = try await gateway.client()
            _ = try await client.exchange(Ask.post("/private/a?token=secret", cookie, body: "hello"))
            _ = try await client.exchange(Ask.get("/private/b"))
        }
        try require(lines.count == 2)
        let first = lines[0]
        for (name, value) in [
            ("logger", "access"), ("peer", "127.0.0.1"), ("method", "POST"), ("route", "private"),
            ("path", "/private/a"),
            ("status", "200"), ("bytes_in", "5"), ("bytes_out", "2"), ("upstream", "api"), ("retries", "0"),
            ("decision", "forwarded"), ("session", "\(made.1.id)"), ("scheme", "http"), ("protocol", "1.1"),
        ] {
            expect(first[name], equals: value, "\(name)")
        }
        expect(first["upstream_target"]?.hasPrefix("127.0.0.1:"), equals: true)
        expect(first["request_id"]?.count, equals: 32)
        expect(first["trace_id"]?.count, equals: 32)
        expect(first["upstream_ms"] != nil)
        expect(first["error"], equals: nil)
        expect(lines[1]["status"], equals: "401")
        expect(lines[1]["decision"], equals: "unauthenticated")
        expect(lines[1]["unauthorized_reason"], equals: "no_session")
        expect(lines[1]["upstream"], equals: nil)
        expect(lines[1]["session"], equals: nil)
        let ticket = cookie.split(separator: "=").last ?? ""
        for secret in ["secret", "canary", String(ticket)] { expect(!text.contains(secret)) }
    }

    @Test("The gateway's own time is logged, and is never zero")
    func overhead() async throws {
        let (lines, _) = try await GatewaySetup.serving.logged { gateway in
            let client = try await gateway.client()
            for _ in 0..<5 { _ = try await client.exchange(Ask.get()) }
            let sum = gateway.metrics.split(separator: "\n").first { $0.hasPrefix("cloakroom_overhead_seconds_sum{") }
            #expect(sum.flatMap { Double($0.split(separator: " ").last ?? "") } ?? 0 > 0)
        }
        expect(lines.count, equals: 5)
        for line in lines {
            let overhead = line["overhead_ms"].flatMap { Double($0) } ?? 0
            let whole = line["duration_ms"].flatMap { Double($0) } ?? 0
            let upstream = line["upstream_ms"].flatMap { Double($0) } ?? 0
            #expect(overhead > 0)
            #expect(abs(overhead + upstream - whole) < 0.002)
        }
    }

    @Test(
        "Of a malformed target, neither a possible password nor a fragment is logged",
        arguments: [
            "http://jo:CANARY@127.0.0.1/episodes", "/cb#access_token=CANARY", "CONNECT jo:CANARY@h:443",
            "jo:CANARY@gateway.test/",
        ])
    func rejectedTarget(_ target: String) async throws {
        let spans = RecordedSpans()
        let tracer = W3CTracer(sampler: .alwaysOn, exporter: spans)
        let request = target.hasPrefix("CONNECT") ? target : "GET \(target)"
        let (lines, text) = try await GatewaySetup().with(\.tracer, tracer).logged { gateway in
            _ = try await gateway.client().exchange("\(request) HTTP/1.1\r\nHost: gateway.test\r\n\r\n")
            try await eventually("a span") { spans.all.count == 1 }
        }
        expect(lines.count, equals: 1)
        expect(!text.contains("CANARY"))
        for span in spans.all { expect(!"\(span.attributes)".contains("CANARY")) }
    }

    @Test("Every outcome has one line")
    func everyWayOut() async throws {
        let setup = GatewaySetup(
            [.request, .close], [.request, .send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"), .close])
        let (lines, _) = try await setup.logged { gateway in
            let client = try await gateway.client()
            _ = try await client.exchange(Ask.post("/public/reset"))
            _ = try? await client.exchange(Ask.get("/public/cut"))
            _ = try await gateway.client().exchange("GET /public/malformed HTTP/1.1\r\nBad Name: x\r\n\r\n")
            _ = try await gateway.client().exchange("GET /public/ho\u{1}le HTTP/1.1\r\n\r\n")
        }
        let outcomes = lines.map { "\($0["status"] ?? "") \($0["error"] ?? "")" }
        expect(
            outcomes,
            equals: [
                "502 upstream_reset", "200 upstream_reset", "400 invalid_request", "400 invalid_request",
            ])
    }

    @Test("A client that disconnects has a line, and causes no upstream error")
    func clientGone() async throws {
        let (lines, _) = try await GatewaySetup([.request]).logged { gateway in
            let client = try await gateway.client(sending: Ask.get("/public/gone"))
            _ = try await gateway.upstream.request()
            try await client.close()
            try await gateway.metric("http_server_active_requests{http_request_method=\"GET\",url_scheme=\"http\"} 0")
        }
        expect(lines.count, equals: 1)
        expect(lines.first?["error"], equals: "client_closed")
        expect(lines.first?["path"], equals: "/public/gone")
    }

    @Test("The line of a repeated request has the number of retries and the upstream's time")
    func retry() async throws {
        let gate = Gate()
        let setup = GatewaySetup(
            [.request, .send(Reply.ok), .request, .close], [.request, .wait(gate), .send(Reply.ok)])
        let (lines, _) = try await setup.steppedTime().logged { gateway in
            let client = try await gateway.client()
            _ = try await client.exchange(Ask.get())
            client.send(Ask.get())
            _ = try await gateway.upstream.request(2)
            // The second attempt is slow: that is the upstream's time, not the gateway's.
            try await gateway.advance(.milliseconds(400))
            gate.open()
            _ = try await client.response()
        }
        expect(lines.last?["retries"], equals: "1")
        let upstream = lines.last?["upstream_ms"].flatMap { Double($0) } ?? 0
        expect(upstream >= 400 && upstream < 401)
    }
}
