import Foundation
import MockAPI
import TestSupport
import Testing

/// The spans of a request, tested through the running program.
@Suite("Traces", .serialized, .timeLimit(.minutes(3)))
struct TraceTests {
    private static let settings = ["tracing.exporter=log", "tracing.ratio=1", "trustedProxies=127.0.0.1"]

    private func seen(_ mock: RunningMockAPI, _ path: String) throws -> RecordedRequest {
        try #require(mock.observations.snapshot().recent.last { $0.path == path })
    }

    @Test(
        "A request is a server span below the client's span, with a client span below it that the upstream continues"
    )
    func request() async throws {
        try await GatewayProcess.running(set: Self.settings) { gateway, mock in
            let client = gateway.client
            _ = try await client.signIn()
            let trace = "4bf92f3577b34da6a3ce929d0e0e4736"
            let sent = [("traceparent", "00-\(trace)-00f067aa0ba902b7-01")]
            #expect(try await client.get("/videos/1?page=canary", sent).status == 200)
            let server = try await gateway.span("the server's span") { $0.trace_id == trace && $0.kind == "server" }
            let call = try await gateway.span("the client's span") { $0.trace_id == trace && $0.kind == "client" }
            #expect(server.name == "GET /videos/{id}")
            #expect(server.parent_span_id == "00f067aa0ba902b7")
            #expect(server["http.route"] == .text("/videos/{id}"))
            #expect(server["http.response.status_code"] == .number(200))
            #expect(server.status == nil)
            #expect(call.parent_span_id == server.span_id)
            #expect(call["http.response.status_code"] == .number(200))
            let traceparents = try seen(mock, "/videos/1").values(of: "traceparent")
            #expect(traceparents.count == 1)
            #expect(traceparents.first?.hasPrefix(call.traceparent) == true)
            #expect(!gateway.program.output.contains("canary"))
        }
    }

    @Test("Statuses of 500 and above are errors of the server span; client errors are not")
    func errors() async throws {
        try await GatewayProcess.running(set: Self.settings) { gateway, mock in
            let client = gateway.client
            #expect(try await client.get("/videos/1").status == 401)
            _ = try await client.signIn()
            mock.faults.failNext("GET", "/videos/2", statuses: [503])
            #expect(try await client.get("/videos/2").status == 503)
            let rejected = try await gateway.span("the rejected request") {
                $0["http.response.status_code"] == .number(401)
            }
            #expect(rejected.kind == "server")
            #expect(rejected.status == nil)
            let failed = try await gateway.span("the failed request") {
                $0.kind == "server" && $0["http.response.status_code"] == .number(503)
            }
            #expect(failed.status == "error")
            #expect(failed["error.type"] == .text("503"))
        }
    }

    @Test("A sign-in is a span below that of its request, with a client span for each call that the upstream continues")
    func signIn() async throws {
        try await GatewayProcess.running(set: Self.settings) { gateway, mock in
            let client = gateway.client
            #expect(try await client.signIn().status == 200)
            let signIn = try await gateway.span("the sign-in") { $0.name == "sign_in" }
            let server = try await gateway.span("its request") { $0.span_id == signIn.parent_span_id }
            #expect(server.kind == "server")
            #expect(server.trace_id == signIn.trace_id)
            #expect(signIn["cloakroom.outcome"] == .text("success"))
            let calls = gateway.spans.filter { $0.parent_span_id == signIn.span_id && $0["url.path"] != nil }
            #expect(calls.map { $0["url.path"] } == [.text("/auth"), .text("/user")])
            for (call, path) in zip(calls, ["/auth", "/user"]) {
                #expect(call.kind == "client")
                #expect(try seen(mock, path).values(of: "traceparent") == [call.traceparent + "03"])
            }
            #expect(try await client.signIn(password: "wrong").status == 401)
            let rejected = try await gateway.span("the rejection") { $0["cloakroom.outcome"] == .text("rejected") }
            #expect(rejected.status == nil)
            #expect(!gateway.program.output.contains("jo@example.com"))
        }
    }

    @Test("A trace that the client did not sample leaves no span, and its context is propagated nevertheless")
    func unsampled() async throws {
        try await GatewayProcess.running(set: Self.settings) { gateway, mock in
            let client = gateway.client
            let trace = "4bf92f3577b34da6a3ce929d0e0e4736"
            let sent = [("traceparent", "00-\(trace)-00f067aa0ba902b7-00")]
            _ = try await client.send(
                "POST", "/auth", sent + [("Authorization", WebClient.basic("jo@example.com", "secret"))])
            _ = try await client.get("/videos/1", sent)
            _ = try await client.get("/episodes")
            _ = try await gateway.span("a request after them") { $0.name == "GET /episodes" }
            #expect(!gateway.spans.contains { $0.trace_id == trace })
            for path in ["/auth", "/user", "/videos/1"] {
                let value = try #require(try seen(mock, path).values(of: "traceparent").first)
                #expect(value.hasPrefix("00-\(trace)-"))
                #expect(value.hasSuffix("-00"))
            }
        }
    }

    @Test("Spans are sent to a collector, and the last ones at shutdown")
    func collector() async throws {
        try await OTLPReceiver.run { collector in
            let settings = [
                "tracing.exporter=otlp", "tracing.ratio=1", "tracing.otlp.interval=1h",
                "tracing.otlp.endpoint=http://127.0.0.1:\(collector.port)/v1/traces",
            ]
            let ending = try await GatewayProcess.running(set: settings) { gateway, _ in
                let client = gateway.client
                #expect(try await client.signIn().status == 200)
                #expect(try await client.get("/videos/1").status == 200)
                gateway.program.send(SIGTERM)
                return try await gateway.program.ending()
            }
            #expect(ending == ChildProgram.Ending(status: 0))
            // With an hour between batches, all spans are in the batch that the shutdown sends.
            let batches = try await collector.receives(requests: 1)
            #expect(batches.count == 1)
            let names = batches.names
            #expect(names.filter { $0 == "sign_in" }.count == 1)
            #expect(names.filter { $0 == "GET /videos/{id}" }.count == 1)
            // The request for the session, and the call at the API.
            #expect(names.filter { $0 == "POST /auth" }.count == 1)
            #expect(names.filter { $0 == "POST" }.count == 1)
            #expect(names.filter { $0 == "GET" }.count == 2)
        }
    }
}
