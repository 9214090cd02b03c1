import CloakroomCore
import CloakroomTelemetry
import InMemoryTracing
import TestSupport
import Testing
import Tracing

@Suite("Traces (W3C Trace Context)", .serialized)
struct TraceTests {
    private static let traceID = "0af7651916cd43dd8448eb211c80319c"
    private static let incoming = "traceparent: 00-\(traceID)-b7ad6b7169203331-01"

    private static func trusting(_ setup: GatewaySetup) -> GatewaySetup {
        setup.configuration { $0.trustedProxies = [CIDRBlock("127.0.0.1")].compactMap { $0 } }
    }

    @Test("An untrusted peer's traceparent is replaced by a new root; exactly one is sent to the upstream")
    func stranger() async throws {
        try await GatewaySetup.serving.run { gateway, client async throws in
            for _ in 0..<2 { _ = try await client.exchange(Ask.get("/public/a", Self.incoming, "tracestate: a=b")) }
            for request in gateway.upstream.requests {
                let parts = request["traceparent"]?.split(separator: "-") ?? []
                try require(parts.count == 4)
                expect(parts[0], equals: "00")
                expect(parts[1].count == 32 && parts[1] != Self.traceID)
                expect(parts[2].count == 16 && parts[2] != "0000000000000000")
                expect(empty: request.values("tracestate"))
            }
            expect(Set(gateway.upstream.requests.map { $0["traceparent"] ?? "" }).count, equals: 2)
        }
    }

    @Test("A trusted peer's unsampled trace is not sampled either, and is still propagated")
    func unsampled() async throws {
        let tracer = InMemoryTracer()
        try await Self.trusting(GatewaySetup([.request, .send(Reply.ok)])).with(\.tracer, tracer).run { gateway in
            let field = "traceparent: 00-\(Self.traceID)-b7ad6b7169203331-00"
            _ = try await gateway.client().exchange(Ask.get("/public/a", field))
            expect(gateway.upstream.requests[0]["traceparent"]?.hasPrefix("00-\(Self.traceID)-"), equals: true)
            expect(gateway.upstream.requests[0]["traceparent"]?.hasSuffix("-00"), equals: true)
            expect(empty: tracer.finishedSpans)
        }
    }

    /// The finished spans of a body's work, as soon as their number is reached.
    private static func spans(
        _ count: Int, _ setup: GatewaySetup, _ body: (RunningGateway) async throws -> Void
    ) async throws -> [FinishedInMemorySpan] {
        let tracer = InMemoryTracer()
        try await setup.with(\.tracer, tracer).run { gateway in
            try await body(gateway)
            try await eventually("\(count) spans") { tracer.finishedSpans.count >= count }
        }
        expect(empty: tracer.activeSpans)
        expect(tracer.finishedSpans.count, equals: count)
        return tracer.finishedSpans
    }

    @Test("A forwarded request is a server span with a client span")
    func serverAndClient() async throws {
        let spans = try await Self.spans(2, GatewaySetup([.request, .send(Reply.ok)])) { gateway in
            _ = try await gateway.client().exchange(Ask.get("/public/a?token=secret"))
        }
        let server = try require(spans.first { $0.kind == .server })
        let client = try require(spans.first { $0.kind == .client })
        expect(client.parentSpanID, equals: server.spanID)
        expect(client.traceID, equals: server.traceID)
        expect(server.parentSpanID, equals: nil)
        expect(server.operationName, equals: "GET /public/*")
        expect(client.operationName, equals: "GET")
        for (name, value) in [
            ("http.request.method", "GET"), ("http.route", "/public/*"), ("url.scheme", "http"),
            ("url.path", "/public/a"),
            ("http.response.status_code", "200"), ("network.protocol.version", "1.1"), ("client.address", "127.0.0.1"),
            ("cloakroom.route", "public"),
        ] {
            expect(server.text(name), equals: value, "\(name)")
        }
        expect(client.text("server.address"), equals: "127.0.0.1")
        let port = try require(client.text("server.port"))
        expect(client.text("url.full"), equals: "http://127.0.0.1:\(port)/public/a")
        expect(client.text("http.response.status_code"), equals: "200")
        expect(server.status, equals: nil)
        expect(client.status, equals: nil)
        for span in spans { expect(!"\(span.attributes)".contains("secret")) }
    }

    @Test("Without a route the name of a span is the method, and HTTP for a non-standard one")
    func names() async throws {
        let spans = try await Self.spans(2, GatewaySetup()) { gateway in
            let client = try await gateway.client()
            _ = try await client.exchange(Ask.get("/nowhere/secret"))
            _ = try await gateway.client().exchange("BREW /nowhere HTTP/1.1\r\nHost: a.test\r\n\r\n")
        }
        expect(spans.allSatisfy { $0.kind == .server && $0.status == nil })
        expect(spans.map(\.operationName), equals: ["GET", "HTTP"])
        expect(spans.map { $0.text("http.request.method") }, equals: ["GET", "_OTHER"])
        expect(spans.map { $0.text("http.request.method_original") }, equals: [nil, "BREW"])
        expect(spans.map { $0.text("http.route") }, equals: [nil, nil])
        expect(spans.map { $0.text("cloakroom.route") }, equals: ["(unmatched)", "(unmatched)"])
    }

    @Test("The spans of own endpoints have the template of the endpoint, without the name in the path")
    func ownEndpoints() async throws {
        let spans = try await Self.spans(4, GatewaySetup()) { gateway in
            let client = try await gateway.client()
            for line in ["POST /auth", "GET /auth", "GET /auth/sessions", "DELETE /auth/sessions/0123456789abcdef"] {
                _ = try await client.exchange("\(line) HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n")
            }
        }
        expect(
            spans.map(\.operationName),
            equals: [
                "POST /auth", "GET /auth", "GET /auth/sessions", "DELETE /auth/sessions/{id}",
            ])
        expect(
            spans.map { $0.text("http.route") },
            equals: [
                "/auth", "/auth", "/auth/sessions", "/auth/sessions/{id}",
            ])
        expect(spans.allSatisfy { $0.text("cloakroom.route") == "(accounts)" })
    }

    @Test("A 5xx is an error in both spans, a 4xx of the upstream only in the client span")
    func status() async throws {
        for (status, serverFails) in [(503, true), (404, false)] {
            let response = "HTTP/1.1 \(status) X\r\nContent-Length: 0\r\n\r\n"
            let spans = try await Self.spans(2, GatewaySetup([.request, .send(response)])) { gateway in
                _ = try await gateway.client().exchange(Ask.get())
            }
            let server = try require(spans.first { $0.kind == .server })
            expect(server.status?.code, equals: (serverFails ? .error : nil))
            if serverFails { expect(server.text("error.type"), equals: "\(status)") }
            let client = try require(spans.first { $0.kind == .client })
            expect(client.status?.code, equals: .error)
            expect(client.text("error.type"), equals: "\(status)")
        }
    }

    @Test("An untrusted peer's trace is not continued, and the new one links to it")
    func link() async throws {
        let spans = RecordedSpans()
        let tracer = W3CTracer(sampler: .alwaysOn.parentBased, exporter: spans)
        try await GatewaySetup([.request, .send(Reply.ok)]).with(\.tracer, tracer).run { gateway in
            _ = try await gateway.client().exchange(Ask.get("/public/a", Self.incoming))
            try await eventually("two spans") { spans.all.count == 2 }
            let server = try require(spans.all.first { $0.kind == .server })
            expect(server.parentSpanID, equals: nil)
            expect("\(server.context.traceID)" != Self.traceID)
            expect(server.links.map(\.traceparentText), equals: [String(Self.incoming.dropFirst(13))])
        }
    }

    @Test("Off-loop work for a sampled request has its span as parent; for other requests it has none")
    func coldWork() async throws {
        for sampler in [TraceSampler.alwaysOn, .alwaysOff] {
            let spans = RecordedSpans()
            let tracer = W3CTracer(sampler: sampler, exporter: spans)
            let endpoints = FakeEndpoints { _ in
                AccountResponse(
                    status: 200,
                    fields: [.init("X-Trace", ServiceContext.current?.traceContext?.traceparentText ?? "none")])
            }
            var setup = GatewaySetup().with(\.tracer, tracer).with(\.endpoints, endpoints)
            setup.settings.sampler = sampler
            try await setup.run { gateway in
                let response = try await gateway.client().exchange(Ask.get("/auth"))
                if sampler == .alwaysOff { return expect(response["X-Trace"], equals: "none") }
                try await eventually("a span") { spans.all.count == 1 }
                expect(response["X-Trace"], equals: spans.all[0].context.traceparentText)
            }
        }
    }

    @Test("An upstream failure is an error with its type in both spans")
    func failure() async throws {
        let spans = try await Self.spans(2, GatewaySetup([.request, .close])) { gateway in
            _ = try await gateway.client().exchange(Ask.post())
        }
        for span in spans {
            expect(span.status?.code, equals: .error)
            expect(span.text("error.type"), equals: "upstream_reset")
        }
    }

    @Test("Each attempt has its own span (http.request.resend_count)")
    func attempts() async throws {
        let spans = try await Self.spans(
            5, GatewaySetup([.request, .send(Reply.ok), .request, .close], [.request, .send(Reply.ok)])
        ) { gateway in
            let client = try await gateway.client()
            _ = try await client.exchange(Ask.get())
            _ = try await client.exchange(Ask.get())
        }
        let clients = spans.filter { $0.kind == .client }
        expect(clients.count, equals: 3)
        expect(clients.compactMap { $0.text("http.request.resend_count") }, equals: ["1"])
        expect(clients.filter { $0.status?.code == .error }.count, equals: 1)
    }

    @Test("A request that is sent once is no resent one, however many targets were tried for its connection")
    func connectionAttempts() async throws {
        let port = try await ScriptedServer.rejectingPort()
        let setup = GatewaySetup([.request, .send(Reply.ok)]).configuration {
            $0.upstreams[0].targets[0].tier = 1
            $0.upstreams[0].targets.append(.http("127.0.0.1", port))
        }
        let spans = try await Self.spans(2, setup) { gateway in
            try await expect(gateway.client().exchange(Ask.get()).text, equals: "ok")
            try await gateway.metric(
                "cloakroom_upstream_retries_total{outcome=\"sent\",reason=\"connect\",upstream=\"api\"} 1")
        }
        let client = try require(spans.first { $0.kind == .client })
        expect(client.text("http.request.resend_count"), equals: nil)
        expect(client.text("network.protocol.version"), equals: "1.1")
    }

    @Test("A trusted peer's trace continues with spans of the gateway's own tracer, and with its tracestate")
    func ownTracer() async throws {
        let spans = RecordedSpans()
        let tracer = W3CTracer(sampler: .alwaysOn.parentBased, exporter: spans)
        try await Self.trusting(GatewaySetup([.request, .send(Reply.ok)])).with(\.tracer, tracer).run { gateway in
            _ = try await gateway.client().exchange(Ask.get("/public/a", Self.incoming, "tracestate: a=b"))
            try await eventually("two spans") { spans.all.count == 2 }
            let client = try require(spans.all.first { $0.kind == .client })
            let server = try require(spans.all.first { $0.kind == .server })
            expect(gateway.upstream.requests[0]["traceparent"], equals: client.context.traceparentText)
            expect(gateway.upstream.requests[0]["tracestate"], equals: "a=b")
            expect(client.parentSpanID, equals: server.context.spanID)
            expect(server.parentSpanID, equals: 0xb7ad_6b71_6920_3331)
            expect("\(server.context.traceID)", equals: Self.traceID)
        }
    }
}

extension FinishedInMemorySpan {
    /// The value of an attribute, as text.
    func text(_ name: String) -> String? {
        switch attributes.get(name) {
        case .string(let text): text
        case .int32(let number): "\(number)"
        case .int64(let number): "\(number)"
        default: nil
        }
    }
}
