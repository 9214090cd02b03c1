/// A request method as a label. Unknown methods are `_OTHER`, so clients cannot create series.
public enum RequestMethod: UInt8, Sendable, CaseIterable {
    /// The methods of RFC 9110 and RFC 5789, and `_OTHER`.
    case get, head, post, put, delete, connect, options, trace, patch, other

    /// Parses the bytes of a request line; methods are case-sensitive (RFC 9110, section 9.1).
    public init(_ bytes: Span<UInt8>) {
        let candidate: RequestMethod =
            switch bytes.count > 1 ? bytes[0] : 0 {
            case UInt8(ascii: "G"): .get
            case UInt8(ascii: "H"): .head
            case UInt8(ascii: "P"):
                switch bytes[1] {
                case UInt8(ascii: "O"): .post
                case UInt8(ascii: "U"): .put
                default: .patch
                }
            case UInt8(ascii: "D"): .delete
            case UInt8(ascii: "C"): .connect
            case UInt8(ascii: "O"): .options
            case UInt8(ascii: "T"): .trace
            default: .other
            }
        self = candidate.matches(bytes) ? candidate : .other
    }

    /// The label `http_request_method`.
    public var label: StaticString {
        switch self {
        case .get: "GET"
        case .head: "HEAD"
        case .post: "POST"
        case .put: "PUT"
        case .delete: "DELETE"
        case .connect: "CONNECT"
        case .options: "OPTIONS"
        case .trace: "TRACE"
        case .patch: "PATCH"
        case .other: "_OTHER"
        }
    }

    private func matches(_ bytes: Span<UInt8>) -> Bool {
        label.withUTF8Buffer { name in
            guard name.count == bytes.count else { return false }
            for index in bytes.indices where bytes[index] != name[index] { return false }
            return true
        }
    }
}

/// The scheme of the request: the label `url_scheme`.
public enum URIScheme: UInt8, Sendable, CaseIterable {
    /// Unencrypted or over TLS.
    case http, https

    /// The label's text.
    public var label: StaticString {
        switch self {
        case .http: "http"
        case .https: "https"
        }
    }
}

/// The label `network_protocol_version`.
public enum HTTPProtocolVersion: UInt8, Sendable, CaseIterable {
    /// HTTP/1.0, HTTP/1.1 and HTTP/2.
    case http1_0, http1_1, http2

    /// The label's text.
    public var label: StaticString {
        switch self {
        case .http1_0: "1.0"
        case .http1_1: "1.1"
        case .http2: "2"
        }
    }
}

/// The negotiated TLS version.
public enum ExchangeTLSVersion: UInt8, Sendable, CaseIterable {
    /// TLS 1.2 and TLS 1.3.
    case tls1_2, tls1_3

    /// The text in the access log.
    public var label: StaticString {
        switch self {
        case .tls1_2: "1.2"
        case .tls1_3: "1.3"
        }
    }
}

/// The authorization decision of the gateway.
public enum ExchangeDecision: UInt8, Sendable, CaseIterable {
    /// Forwarded with a session, or on a public route.
    case forwarded, `public`
    /// Rejected: no session, not allowed, or a forged cross-site request.
    case unauthenticated, forbidden, csrfRejected
    /// Handled by an endpoint of the gateway itself.
    case local
    /// No decision: no matching route, or a bad request.
    case undecided

    /// The label `decision`.
    public var label: StaticString {
        switch self {
        case .forwarded: "forwarded"
        case .public: "public"
        case .unauthenticated: "unauthenticated"
        case .forbidden: "forbidden"
        case .csrfRejected: "csrf_rejected"
        case .local: "own"
        case .undecided: "none"
        }
    }

    /// Whether the decision is counted in `cloakroom_auth_decisions_total`.
    var isAuthDecision: Bool {
        switch self {
        case .forwarded, .public, .unauthenticated, .forbidden, .csrfRejected: true
        case .local, .undecided: false
        }
    }
}

/// The error of a failed exchange: the label `error_type`. A closed set, so no error text becomes a label.
public enum ExchangeErrorType: UInt8, Sendable, CaseIterable {
    /// Errors of the client.
    case clientClosed, requestTimeout, invalidRequest, bodyTooLarge
    /// Errors of the upstream.
    case upstreamUnreachable, upstreamTimeout, upstreamReset, upstreamInvalidResponse
    /// Errors of the gateway.
    case overloaded, storeUnavailable, draining, sessionEnded, internalError

    /// The label's text.
    public var label: StaticString {
        switch self {
        case .clientClosed: "client_closed"
        case .requestTimeout: "request_timeout"
        case .invalidRequest: "invalid_request"
        case .bodyTooLarge: "body_too_large"
        case .upstreamUnreachable: "upstream_unreachable"
        case .upstreamTimeout: "upstream_timeout"
        case .upstreamReset: "upstream_reset"
        case .upstreamInvalidResponse: "upstream_invalid_response"
        case .overloaded: "overloaded"
        case .storeUnavailable: "store_unavailable"
        case .draining: "draining"
        case .sessionEnded: "session_ended"
        case .internalError: "internal_error"
        }
    }
}
