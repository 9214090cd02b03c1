import CloakroomCore
import CloakroomIdentity
import InMemoryTracing
import TestSupport
import Testing
import Tracing

@Suite("Spans of requests to the upstream", .timeLimit(.minutes(3)))
struct CallSpansTests {
    private static let tokens = ScriptedServer.response("200 OK", #"{"access_token":"canary-access"}"#)
    private let spans = TracedRequest()

    /// A configuration in which a sign-in takes one call.
    private func configuration(port: Int, others: [Int] = []) -> UpstreamConfiguration {
        var configuration = Upstreams.configuration(port: port, others: others)
        configuration.user = nil
        return configuration
    }

    private func signIn(_ configuration: UpstreamConfiguration, timeout: Duration = .seconds(10)) async throws
        -> InMemorySpan
    {
        try await Upstreams.withClient(configuration, timeout: timeout, tracer: spans.tracer) { client in
            try await spans.request {
                _ = try? await client.signIn(
                    try Upstreams.credentials(), traceparent: "00-given-01", now: Upstreams.now)
            }.server
        }
    }

    @Test("A call is a client span under the current one, and the upstream continues its trace")
    func call() async throws {
        try await ScriptedServer.run([Self.tokens]) { port, upstream in
            let server = try await signIn(configuration(port: port))
            let span = try require(spans.finished.first)
            expect(spans.finished.count, equals: 1)
            expect(span.operationName, equals: "POST")
            expect(span.kind, equals: .client)
            expect(span.parentSpanID, equals: server.spanID)
            expect(!span.isError)
            expect(
                span.texts,
                equals: [
                    "http.request.method": "POST", "server.address": "127.0.0.1", "server.port": "\(port)",
                    "url.path": "/auth", "url.full": "http://127.0.0.1:\(port)/auth",
                    "http.response.status_code": "200", "network.protocol.version": "1.1",
                ])
            let request = try require(upstream.requests.first)
            expect(request.contains("\(InMemoryTracer.spanIDKey): \(span.spanID)\r\n"))
            expect(request.contains("\(InMemoryTracer.traceIDKey): \(server.traceID)\r\n"))
        }
    }

    @Test("Without a current span none is created, and the given context is sent")
    func unsampled() async throws {
        try await ScriptedServer.run([Self.tokens]) { port, upstream in
            try await Upstreams.withClient(configuration(port: port), tracer: spans.tracer) { client in
                _ = try? await client.signIn(
                    try Upstreams.credentials(), traceparent: "00-given-01", now: Upstreams.now)
            }
            expect(empty: spans.finished)
            expect(upstream.requests.first?.contains("traceparent: 00-given-01\r\n"), equals: true)
            expect(upstream.requests.first?.contains("in-memory"), equals: false)
        }
    }

    @Test("Each attempted target has a span of its own, with its number")
    func targets() async throws {
        let nobody = try await ScriptedServer.rejectingPort()
        try await ScriptedServer.run([Self.tokens]) { port, _ in
            _ = try await signIn(configuration(port: nobody, others: [port]))
            try require(spans.finished.count == 2)
            expect(spans.finished.map { $0.texts["server.port"] }, equals: ["\(nobody)", "\(port)"])
            expect(spans.finished.map { $0.texts["http.request.resend_count"] }, equals: [nil, "1"])
            expect(spans.finished.map { $0.texts["error.type"] }, equals: ["upstream_unreachable", nil])
            expect(spans.finished.map(\.isError), equals: [true, false])
        }
    }

    @Test("A call that is retried after its connection was lost has two spans")
    func brokenConnection() async throws {
        try await ScriptedServer.run([.close, Self.tokens]) { port, _ in
            _ = try await signIn(configuration(port: port))
            expect(spans.finished.map { $0.texts["http.request.resend_count"] }, equals: [nil, "1"])
            expect(spans.finished.map(\.isError), equals: [true, false])
        }
    }

    @Test("A failure status is the error type", arguments: ["401", "500"])
    func status(status: String) async throws {
        try await ScriptedServer.run([ScriptedServer.response("\(status) No", "")]) { port, _ in
            _ = try await signIn(configuration(port: port))
            let span = try require(spans.finished.first)
            expect(span.texts["http.response.status_code"], equals: status)
            expect(span.texts["error.type"], equals: status)
            expect(span.isError)
        }
    }

    @Test("A missing and a malformed response have different error types")
    func failures() async throws {
        try await ScriptedServer.run([.silence]) { port, _ in
            _ = try await signIn(configuration(port: port), timeout: .milliseconds(100))
        }
        try await ScriptedServer.run([
            ScriptedServer.response("200 OK", String(repeating: "x", count: 70_000))
        ]) { port, _ in
            _ = try await signIn(configuration(port: port))
        }
        expect(
            spans.finished.map { $0.texts["error.type"] }, equals: ["upstream_timeout", "upstream_invalid_response"])
        expect(spans.tracer.activeSpans.allSatisfy { $0.operationName == "server" })
    }
}
