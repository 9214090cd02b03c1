import InMemoryTracing
import Tracing

/// A tracer that records its spans, and a sampled request.
struct TracedRequest: Sendable {
    let tracer = InMemoryTracer()

    /// Runs `body` under a server span.
    /// - Returns: The result of `body` and the server span.
    func request<Result: Sendable>(
        _ body: () async throws -> Result
    ) async throws -> (result: Result, server: InMemorySpan) {
        let server = tracer.startSpan("server", context: .topLevel, ofKind: .server)
        return (try await ServiceContext.withValue(server.context) { try await body() }, server)
    }

    /// The ended spans, in the order of their ends.
    var finished: [FinishedInMemorySpan] { tracer.finishedSpans }

    /// All parts of the ended spans.
    var text: String {
        finished.map { "\($0.operationName) \($0.texts) \($0.events) \($0.errors) \(String(describing: $0.status))" }
            .joined()
    }
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
