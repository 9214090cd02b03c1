import NIOHTTP1
import Tracing

/// The span of one call over HTTP, by OpenTelemetry's conventions for clients.
struct HTTPClientSpan: Sendable {
    let span: any Span
    let tracer: any Tracer

    /// The upstream continues from this span, whatever the fields said before.
    func inject(into headers: inout HTTPHeaders) {
        tracer.inject(span.context, into: &headers, using: FieldInjector())
    }

    /// The call was answered.
    func end(status: Int) {
        span.attributes["http.response.status_code"] = Int64(status)
        if status >= 400 { fail("\(status)") }
        span.end()
    }

    /// The call failed on its way.
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
    /// In the words that exchanges use for the same.
    fileprivate var label: String {
        switch self {
        case .unreachable: "upstream_unreachable"
        case .timedOut: "upstream_timeout"
        case .invalidResponse: "upstream_invalid_response"
        }
    }
}
