import CloakroomCore
import NIOHTTP1
import Tracing

/// Creates child spans of the current span, which exists for sampled requests. Without a current span or a tracer, no
/// span is created.
///
/// Spans contain no data that identifies a user and no credentials.
struct SpanFactory: Sendable {
    let tracer: (any Tracer)?

    func withSpan<Result: Sendable>(
        _ name: String, isolation: isolated (any Actor)? = #isolation, _ work: ((any Span)?) async -> Result
    ) async -> Result {
        guard let span = start(name, .internal) else { return await work(nil) }
        defer { span.end() }
        return await ServiceContext.withValue(span.context) { await work(span) }
    }

    /// Starts the span of one HTTP call; the caller ends it.
    func startClientSpan(_ call: IdentityRequest, to target: IdentityTarget, resends: Int) -> HTTPClientSpan? {
        guard let tracer, let span = start(call.configuration.method, .client) else { return nil }
        span.attributes["http.request.method"] = call.configuration.method
        span.attributes["server.address"] = target.serverAddress
        if let port = target.serverPort { span.attributes["server.port"] = Int64(port) }
        span.attributes["network.protocol.version"] = "1.1"
        // The configured path, which contains no user data. The endpoint of a provider may have a query.
        span.attributes["url.path"] = call.loggablePath
        if let url = target.fullURL(call.loggablePath) { span.attributes["url.full"] = url }
        if resends > 0 { span.attributes["http.request.resend_count"] = Int64(resends) }
        return HTTPClientSpan(span: span, tracer: tracer)
    }

    private func start(_ name: String, _ kind: SpanKind) -> (any Span)? {
        guard let tracer, let parent = ServiceContext.current else { return nil }
        return tracer.startAnySpan(name, context: parent, ofKind: kind)
    }
}

extension Span {
    /// Sets the outcome of the work. A mistake of the user is not an error.
    func setOutcome(outcome: String, isError: Bool) {
        attributes["cloakroom.outcome"] = outcome
        if isError { setStatus(SpanStatus(code: .error)) }
    }
}

/// The span of one HTTP call, by OpenTelemetry's conventions for HTTP clients.
struct HTTPClientSpan: Sendable {
    let span: any Span
    let tracer: any Tracer

    /// Makes this span the parent of the upstream's spans and replaces existing trace fields.
    func inject(into headers: inout HTTPHeaders) {
        tracer.inject(span.context, into: &headers, using: FieldInjector())
    }

    /// Ends the span of a call that received a response.
    func end(status: Int) {
        span.attributes["http.response.status_code"] = Int64(status)
        if status >= 400 { fail("\(status)") }
        span.end()
    }

    /// Ends the span of a call that failed before a response.
    func end(failure: TokenClientError.Kind) {
        fail(failure.effects.errorType)
        span.end()
    }

    private func fail(_ type: String) {
        span.attributes["error.type"] = type
        span.setStatus(SpanStatus(code: .error))
    }

    private struct FieldInjector: Injector {
        func inject(_ value: String, forKey key: String, into headers: inout HTTPHeaders) {
            headers.replaceOrAdd(name: key, value: value)
        }
    }
}
