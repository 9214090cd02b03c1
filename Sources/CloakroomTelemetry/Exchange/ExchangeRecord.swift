/// The data of one finished exchange for metrics and access log. Filled during the exchange and read once at its end;
/// does not allocate per request.
public struct ExchangeRecord: Sendable {
    /// Index into the route names given to ``LoopTelemetry``; -1 if no route matched.
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
    /// Arrival of the request's first byte: nanoseconds since 1970-01-01T00:00:00Z.
    public var startWallNanoseconds: Int64 = 0
    /// Duration from the request's first byte to the response's last, in nanoseconds, by a monotonic clock.
    public var durationNanoseconds: UInt64 = 0
    /// The time spent waiting for the upstream, in nanoseconds; `nil` if the request was not forwarded.
    public var upstreamDurationNanoseconds: UInt64?
    /// The status of the upstream, if it differs from ``status``: 0 if there was no response and the gateway sent a
    /// local one.
    public var upstreamStatus: UInt16?
    /// Index into the targets given to ``LoopTelemetry``; -1 if the request was not forwarded.
    public var upstreamIndex: Int = -1
    /// Body bytes from the client.
    public var bytesReceived: UInt64 = 0
    /// Body bytes to the client.
    public var bytesSent: UInt64 = 0
    /// The number of retries at an upstream.
    public var retries: Int = 0
    /// The public id of the session, ``SessionID/value``; it grants no access.
    public var sessionHash: UInt64?
    /// The trace that the exchange belongs to.
    public var traceID: ID128?
    /// The id that error responses contain.
    public var requestID: ID128 = ID128(high: 0, low: 0)
    /// The client's address without its port, rendered once per connection.
    public var peerAddress: String = ""
    /// `nil` without TLS.
    public var tlsVersion: ExchangeTLSVersion?

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

    /// The time spent in the gateway: the total without the upstream's part.
    var overheadNanoseconds: UInt64 {
        let upstream = upstreamDurationNanoseconds ?? 0
        return durationNanoseconds > upstream ? durationNanoseconds - upstream : 0
    }
}
