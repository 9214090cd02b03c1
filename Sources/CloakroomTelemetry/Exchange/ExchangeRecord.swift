public import CloakroomCore
public import CloakroomWire

/// The data of one finished exchange for metrics and access log. Filled during the exchange and read once at its end;
/// does not allocate per request.
public struct ExchangeRecord: Sendable {
    /// What decides about a request with `Authorization`.
    public enum Credential: String, Sendable {
        case bearer, dpop, basic
        /// The upstream, which verifies it.
        case unverified
    }

    /// Index into the routes given to ``LoopTelemetry``; -1 if no route matched.
    public var routeIndex: Int = -1
    /// The request's method.
    public var method: RequestMethod = .other
    /// The status sent to the client; 0 if the connection was lost before.
    public var status: UInt16 = 0
    /// Unencrypted or over TLS.
    public var scheme: URIScheme = .http
    /// The client's protocol version.
    public var protocolVersion: HTTPProtocolVersion = .http1_1
    /// The error; `nil` if the exchange succeeded or the status of the upstream describes the failure.
    public var errorType: ExchangeErrorType?
    /// The authorization decision.
    public var decision: ExchangeDecision = .undecided
    /// Index into the rate limits given to ``LoopTelemetry`` of the one that rejected the request, or would have; -1 for
    /// none.
    public var limitIndex: Int = -1
    /// Index into the listeners given to ``LoopTelemetry``, which are logged; -1 for none.
    public var listenerIndex: Int = -1
    /// The reason in a 401 of the gateway; `nil` for all other responses.
    public var unauthorizedReason: UnauthorizedReason?
    /// Arrival of the request's first byte: nanoseconds since 1970-01-01T00:00:00Z.
    public var startWallNanoseconds: Int64 = 0
    /// Duration from the request's first byte to the response's last, in nanoseconds, by a monotonic clock.
    public var durationNanoseconds: UInt64 = 0
    /// The time spent waiting for the upstream, in nanoseconds; `nil` if the request was not forwarded.
    public var upstreamDurationNanoseconds: UInt64?
    /// The time for which the request waited for its body before it was forwarded, in nanoseconds; 0 if the body came
    /// with the head.
    public var bodyWaitNanoseconds: UInt64 = 0
    /// The time for which the request waited for tokens before it was forwarded, in nanoseconds: identity calls of a
    /// refresh or an exchange, or such a call for another request of the session.
    public var identityNanoseconds: UInt64 = 0
    /// The status of the upstream, if it differs from ``status``: 0 if there was no response and the gateway sent a
    /// local one.
    public var upstreamStatus: UInt16?
    /// Index into the targets given to ``LoopTelemetry``; -1 if the request was not forwarded.
    public var upstreamIndex: Int = -1
    /// Body bytes from the client.
    public var bytesReceived: UInt64 = 0
    /// Body bytes to the client.
    public var bytesSent: UInt64 = 0
    /// How often another attempt was made: after a failed connection, after a failed request, or with another token.
    public var retries: Int = 0
    /// The address of the target that the last attempt was sent to; `nil` if the configured target is an address or a
    /// socket.
    public var upstreamPeer: UpstreamPeer?
    /// The reason of the last retry; `nil` if there was none but with another token.
    public var retryReason: RetryReason?
    /// How long the request waited for a connection, over all attempts, in nanoseconds; logged if it waited.
    public var queueNanoseconds: UInt64 = 0
    /// The protocol of the upstream connection; `nil` is HTTP/1.1 and is not logged.
    public var upstreamProtocol: HTTPProtocolVersion?
    /// The public id of the session, ``SessionID/value``; it grants no access.
    public var sessionHash: UInt64?
    /// The name of the session's app; `nil` for most sessions.
    public var app: String?
    /// Whether the session is bound to a key of its device; logged if it is.
    public var isBound = false
    /// What decided in place of a session; `nil` is not logged.
    public var credential: Credential?
    /// The kind of the proxy that asked and forwards the request itself; `nil` is not logged.
    public var decidedFor: ForwardAuthConfiguration.Proxy?
    /// The trace that the exchange belongs to.
    public var traceID: ID128?
    /// The id that error responses contain.
    public var requestID: ID128 = ID128(high: 0, low: 0)
    /// The client's address without its port, rendered once per connection.
    public var peerAddress: String = ""
    /// `nil` without TLS.
    public var tlsVersion: TLSVersion?

    /// An empty record.
    public init() {}

    /// The maximum logged path length in bytes.
    static let pathLimit = 1_024

    /// The length of the loggable part of a target: up to its query or fragment, which may contain secrets, and at most
    /// 1 KiB. Targets that do not begin like a path are not logged, because a password may precede the host (RFC 3986
    /// §3.2.1).
    public static func loggablePathLength(ofPath path: Span<UInt8>) -> Int {
        guard path.count > 0, path[0] == UInt8(ascii: "/") || path[0] == UInt8(ascii: "*") else { return 0 }
        var end = 0
        let limit = min(path.count, pathLimit)
        while end < limit, path[end] != UInt8(ascii: "?"), path[end] != UInt8(ascii: "#") { end += 1 }
        return end
    }

    /// The time spent in the gateway: the total without the part of the upstream and of identity calls, and without the
    /// wait for the client's body.
    var overheadNanoseconds: UInt64 {
        let others = (upstreamDurationNanoseconds ?? 0) &+ bodyWaitNanoseconds &+ identityNanoseconds
        return durationNanoseconds > others ? durationNanoseconds - others : 0
    }
}

extension RequestMethod {
    /// The label `http_request_method`. Unknown methods are `_OTHER`, so clients cannot create series.
    public var label: StaticString {
        self == .other ? "_OTHER" : name
    }
}

/// The authorization decision of the gateway.
public enum ExchangeDecision: UInt8, Sendable, CaseIterable {
    /// Forwarded with a session, or on a public route.
    case forwarded, `public`
    /// Rejected: no session, or a forged cross-site request.
    case unauthenticated, csrfRejected
    /// Rejected: the session may not use the route.
    case forbidden
    /// Rejected: a rate limit is exceeded.
    case rateLimited
    /// Handled by an endpoint of the gateway itself.
    case local
    /// Redirected by the configuration of a route or a listener.
    case redirected
    /// The response is a file.
    case file
    /// Rejected: the host is not served here.
    case misdirected
    /// No decision: no matching route, or a bad request.
    case undecided

    /// The label `decision`.
    public var label: StaticString {
        switch self {
        case .forwarded: "forwarded"
        case .public: "public"
        case .unauthenticated: "unauthenticated"
        case .csrfRejected: "csrf_rejected"
        case .forbidden: "forbidden"
        case .rateLimited: "rate_limited"
        case .local: "local"
        case .redirected: "redirected"
        case .file: "file"
        case .misdirected: "misdirected"
        case .undecided: "undecided"
        }
    }

    /// Whether the decision is counted in `cloakroom_auth_decisions_total`.
    var isAuthDecision: Bool {
        switch self {
        case .forwarded, .public, .unauthenticated, .csrfRejected, .forbidden: true
        case .rateLimited, .local, .redirected, .file, .misdirected, .undecided: false
        }
    }
}

/// The error of a failed exchange: the label `error_type`. A closed set, so no error text becomes a label.
public enum ExchangeErrorType: UInt8, Sendable, CaseIterable {
    /// Errors of the client.
    case clientClosed, clientTooSlow, requestTimeout, invalidRequest, bodyTooLarge
    /// Errors of the upstream.
    case upstreamUnreachable, upstreamTimeout, upstreamReset, upstreamInvalidResponse
    /// Errors of the gateway.
    case overloaded, storeUnavailable, draining, routeChanged, sessionEnded, streamLifetime, internalError

    /// The label's text.
    public var label: StaticString {
        switch self {
        case .clientClosed: "client_closed"
        case .clientTooSlow: "client_too_slow"
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
        case .routeChanged: "route_changed"
        case .sessionEnded: "session_ended"
        case .streamLifetime: "stream_lifetime"
        case .internalError: "internal_error"
        }
    }
}

/// The labels of a route.
public struct RouteLabels: Sendable, Hashable {
    /// The configured name: the label `route`.
    public let name: String
    /// The path pattern: the label `http_route`; empty if there is none.
    public let pattern: String

    /// Creates the labels of a route.
    public init(name: String, pattern: String = "") {
        self.name = name
        self.pattern = pattern
    }
}

/// The labels of a target of an upstream.
public struct UpstreamTarget: Sendable, Hashable {
    /// The upstream's configured name.
    public let upstream: String
    /// Host name or address of the target, or the path of a socket.
    public let address: String
    /// The target's port; 0 for a socket, which has none.
    public let port: Int

    /// Creates the labels of a target.
    public init(upstream: String, address: String, port: Int) {
        self.upstream = upstream
        self.address = address
        self.port = port
    }

    /// `host:port`, `[IPv6]:port` or `unix:path`.
    var authority: String {
        if port == 0 { return "unix:\(address)" }
        return address.contains(":") ? "[\(address)]:\(port)" : "\(address):\(port)"
    }
}

/// The IP address and port of a target, without references.
public struct UpstreamPeer: Sendable, Hashable {
    /// The first 8 bytes of an IPv6 address; 0 for IPv4.
    public let high: UInt64
    /// The last 8 bytes of an IPv6 address; an IPv4 address in the low 4 bytes.
    public let low: UInt64
    /// The port.
    public let port: UInt16
    /// Whether the address is IPv6.
    public let isIPv6: Bool

    /// An IPv4 address.
    public init(ipv4: UInt32, port: UInt16) {
        high = 0
        low = UInt64(ipv4)
        self.port = port
        isIPv6 = false
    }

    /// An IPv6 address.
    public init(ipv6High high: UInt64, low: UInt64, port: UInt16) {
        self.high = high
        self.low = low
        self.port = port
        isIPv6 = true
    }

    /// The address in text.
    /// - Returns: `nil` if the text is no IP address.
    public init?(address: String, port: UInt16) {
        guard let bytes = IPAddress.bytes(of: address) else { return nil }
        if bytes.count == 4 {
            self.init(ipv4: bytes.reduce(0) { $0 << 8 | UInt32($1) }, port: port)
        } else {
            self.init(
                ipv6High: bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) },
                low: bytes.suffix(8).reduce(0) { $0 << 8 | UInt64($1) }, port: port)
        }
    }
}

/// A 128-bit identifier, written as 32 lower-case hexadecimal digits: a request id or a trace id.
public struct ID128: Sendable, Hashable {
    /// The first sixteen digits.
    public var high: UInt64
    /// The last sixteen digits.
    public var low: UInt64

    /// Creates an identifier from its two halves.
    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// W3C Trace Context calls an identifier of zeros invalid.
    public var isZero: Bool { high == 0 && low == 0 }
}

extension ID128: LosslessStringConvertible {
    /// The identifier of 32 hexadecimal digits; `nil` for another text.
    public init?(_ text: String) {
        guard text.utf8.count == 32, let high = UInt64(text.prefix(16), radix: 16),
            let low = UInt64(text.suffix(16), radix: 16)
        else { return nil }
        self.init(high: high, low: low)
        // A number may also have a sign.
        guard description == text.lowercased() else { return nil }
    }

    /// The 32 digits.
    public var description: String {
        var line = LineBuffer(reserving: 32)
        line.appendHex(self)
        return line.text
    }
}
