import InMemoryTracing
import Tracing

/// A tracer that keeps what it is given, and a request that is sampled.
struct RecordedSpans: Sendable {
    let tracer = InMemoryTracer()

    /// Does something below a server's span.
    /// - Returns: What came of it, and the server's span.
    func request<Result: Sendable>(
        _ body: () async throws -> Result
    ) async throws -> (result: Result, server: InMemorySpan) {
        let server = tracer.startSpan("server", context: .topLevel, ofKind: .server)
        return (try await ServiceContext.withValue(server.context) { try await body() }, server)
    }

    /// The spans that have ended, in the order of their ends.
    var finished: [FinishedInMemorySpan] { tracer.finishedSpans }
}

extension FinishedInMemorySpan {
    /// Every attribute as text.
    var texts: [String: String] {
        var texts: [String: String] = [:]
        attributes.forEach { name, value in
            switch value {
            case .string(let text): texts[name] = text
            case .int64(let number): texts[name] = "\(number)"
            default: texts[name] = "\(value)"
            }
        }
        return texts
    }

    var isError: Bool { status?.code == .error }
}
