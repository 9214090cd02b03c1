/// Everything that metrics and the access log want to know about one finished exchange. It is filled in while the
/// exchange runs and read once at its end; nothing in it allocates per request.
public struct ExchangeRecord: Sendable {
    /// Index into the route names given to ``LoopTelemetry``; -1 when no route matched.
    public var routeIndex: Int = -1
    /// The request's method.
    public var method: RequestMethod = .other
    /// The status that the client was sent; 0 when the connection was lost before there was one.
    public var status: UInt16 = 0
    /// In clear or over TLS.
    public var scheme: URIScheme = .http
    /// The client's protocol version.
    public var protocolVersion: HTTPProtocolVersion = .http1_1
    /// Why it failed; `nil` when it did not, or when the upstream's own status says it all.
    public var errorType: ExchangeErrorType?
    /// What was decided about it.
    public var decision: ExchangeDecision = .undecided
    /// When the request's first byte was there: nanoseconds since 1970-01-01T00:00:00Z.
    public var startWallNanoseconds: Int64 = 0
    /// From the request's first byte to the answer's last, in nanoseconds, by a monotonic clock.
    public var durationNanoseconds: UInt64 = 0
    /// The part of it that was spent waiting for the upstream, in nanoseconds; `nil` when none was asked.
    public var upstreamDurationNanoseconds: UInt64?
    /// What the upstream answered, where that is not ``status``: 0 when it gave no answer and the gateway made one up.
    public var upstreamStatus: UInt16?
    /// Index into the targets given to ``LoopTelemetry``; -1 when no upstream was asked.
    public var upstreamIndex: Int = -1
    /// Body bytes from the client.
    public var bytesReceived: UInt64 = 0
    /// Body bytes to the client.
    public var bytesSent: UInt64 = 0
    /// How often the request was sent again to an upstream.
    public var retries: Int = 0
    /// The session's name, ``SessionID/value``: it opens nothing.
    public var sessionHash: UInt64?
    /// The trace that the exchange belongs to.
    public var traceID: ID128?
    /// The id that the client is told in errors.
    public var requestID: ID128 = ID128(high: 0, low: 0)
    /// The client's address without its port, rendered once per connection.
    public var peerAddress: String = ""
    /// `nil` without TLS.
    public var tlsVersion: ExchangeTLSVersion?

    /// A record with nothing known yet.
    public init() {}

    /// Longer paths are told of up to here, in bytes.
    static let pathLimit = 1_024

    /// How much of a target may be told: up to its query or fragment, which may hold secrets, and up to 1 KiB. Nothing of
    /// what does not begin like a path: before a host there may be a password (RFC 3986 §3.2.1).
    public static func loggablePathLength(ofPath path: Span<UInt8>) -> Int {
        guard path.count > 0, path[0] == UInt8(ascii: "/") || path[0] == UInt8(ascii: "*") else { return 0 }
        var end = 0
        let limit = min(path.count, pathLimit)
        while end < limit, path[end] != UInt8(ascii: "?"), path[end] != UInt8(ascii: "#") { end += 1 }
        return end
    }

    /// What the gateway itself took: the whole without the upstream's part.
    var overheadNanoseconds: UInt64 {
        let upstream = upstreamDurationNanoseconds ?? 0
        return durationNanoseconds > upstream ? durationNanoseconds - upstream : 0
    }
}
