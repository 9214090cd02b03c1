import NIOHTTP1
import Tracing

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
    func end(failure: IdentityTransportError.Kind) {
        fail(failure.label)
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

extension IdentityTransportError.Kind {
    /// The same `error.type` values that exchanges use.
    fileprivate var label: String {
        switch self {
        case .unreachable: "upstream_unreachable"
        case .timedOut: "upstream_timeout"
        case .invalidResponse: "upstream_invalid_response"
        }
    }
}
