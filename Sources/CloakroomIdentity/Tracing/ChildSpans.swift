import CloakroomCore
import Tracing

/// Makes spans below the one that is current, which is there for requests that are sampled. Where there is none, or
/// nobody traces, no span is made.
///
/// Nothing that tells who somebody is goes into a span, and nothing that opens anything.
struct SpanFactory: Sendable {
    private let tracer: (any Tracer)?

    init(_ tracer: (any Tracer)?) {
        self.tracer = tracer
    }

    /// Does work inside a span of its own.
    func withSpan<Result: Sendable>(
        _ name: String, isolation: isolated (any Actor)? = #isolation, _ work: ((any Span)?) async -> Result
    ) async -> Result {
        guard let span = start(name, .internal) else { return await work(nil) }
        defer { span.end() }
        return await ServiceContext.withValue(span.context) { await work(span) }
    }

    /// Begins the span of one call over HTTP; whoever gets it ends it.
    func startClientSpan(_ call: IdentityRequest, to target: IdentityTarget, resends: Int) -> HTTPClientSpan? {
        guard let tracer, let span = start(call.configuration.method, .client) else { return nil }
        span.attributes["http.request.method"] = call.configuration.method
        span.attributes["server.address"] = target.serverAddress
        if let port = target.serverPort { span.attributes["server.port"] = Int64(port) }
        // As it stands in the plan: nothing of a user's is in it.
        span.attributes["url.path"] = call.configuration.path
        if resends > 0 { span.attributes["http.request.resend_count"] = Int64(resends) }
        return HTTPClientSpan(span: span, tracer: tracer)
    }

    private func start(_ name: String, _ kind: SpanKind) -> (any Span)? {
        guard let tracer, let parent = ServiceContext.current else { return nil }
        return tracer.startAnySpan(name, context: parent, ofKind: kind)
    }
}

extension Span {
    /// How the work went. Only what is not the user's own mistake is an error.
    func setOutcome(outcome: String, isError: Bool) {
        attributes["cloakroom.outcome"] = outcome
        if isError { setStatus(SpanStatus(code: .error)) }
    }
}
