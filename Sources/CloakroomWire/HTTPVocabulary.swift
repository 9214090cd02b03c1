/// A request method.
public enum RequestMethod: UInt8, Sendable, CaseIterable {
    /// The methods of RFC 9110 and RFC 5789, and all others.
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

    /// The method as sent; empty for ``other``.
    public var name: StaticString {
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
        case .other: ""
        }
    }

    /// Whether the method only reads (RFC 9110 §9.2.1).
    public var isSafe: Bool {
        switch self {
        case .get, .head, .options, .trace: true
        case .post, .put, .patch, .delete, .connect, .other: false
        }
    }

    /// Whether a repeated request has the effect of a single one (RFC 9110 §9.2.2).
    public var isIdempotent: Bool {
        switch self {
        case .get, .head, .put, .delete, .options, .trace: true
        case .post, .patch, .connect, .other: false
        }
    }

    private func matches(_ bytes: Span<UInt8>) -> Bool {
        name.withUTF8Buffer { name in
            guard name.count == bytes.count else { return false }
            for index in bytes.indices where bytes[index] != name[index] { return false }
            return true
        }
    }
}

/// The scheme of a request or of a target.
public enum URIScheme: UInt8, Sendable, CaseIterable {
    /// Unencrypted or over TLS.
    case http, https

    /// The name as in a URI.
    public var name: StaticString {
        switch self {
        case .http: "http"
        case .https: "https"
        }
    }
}

/// A protocol version of HTTP.
public enum HTTPProtocolVersion: UInt8, Sendable, CaseIterable {
    /// HTTP/1.0, HTTP/1.1 and HTTP/2.
    case http1_0, http1_1, http2

    /// The version without the name of the protocol, as in the OpenTelemetry conventions.
    public var name: StaticString {
        switch self {
        case .http1_0: "1.0"
        case .http1_1: "1.1"
        case .http2: "2"
        }
    }
}
