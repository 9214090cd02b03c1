import CloakroomCore
import CloakroomHTTP2
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// A request as received from the client, and what ``RequestDecider`` has read from it.
///
/// The connection handler fills in the head before the exchange begins; after that only the decider and the end
/// of the exchange change it. One value serves all requests of a connection in sequence, so the capacity of the head is reused.
struct InboundRequest {
    var head = RequestHead()
    /// HTTP version of the client connection.
    var version = HTTPProtocolVersion.http1_1
    private(set) var method = RequestMethod.other
    /// Whether the response has no body. Not the method of an original request, which the response is not for.
    private(set) var isToHead = false
    private(set) var framing = BodyFraming.none
    /// The requested upgrade, if any.
    var upgrade = RequestedUpgrade.none
    var target = RequestTarget.empty
    /// The normalized path, if it differs from the path in the request.
    var normalizedPath: [UInt8] = []
    /// The path that is forwarded instead of the received one; empty for the latter.
    var sentPath: [UInt8] = []
    /// The prefix that a trusted proxy has removed from the path, on routes that remove another one; it precedes that.
    var forwardedPrefix: ByteRange?
    /// Storage of the route table for the lenient form of the path.
    var lenientPath: [UInt8] = []
    /// Range of the authority in the head.
    var hostRange: ByteRange?
    /// The group of its host in the route table; 0 if no hosts are configured.
    var routeGroup = 0
    /// Of the connection; see ``HostCache``.
    var hostCache = HostCache()
    var summary = RequestHeaderPolicy.RequestHeaderSummary()
    /// How the request's origin matches the CORS policy.
    var originMatch = CORSPolicy.OriginMatch.notEvaluated
    /// `nil` also if ``credential`` decides.
    var ticket: SessionTicket?
    var otherCookies = OtherCookies()
    /// Of the connection; see ``RepeatedCookies``.
    var repeatedCookies = RepeatedCookies()
    /// Of the connection; see ``AcceptedProof``.
    var acceptedProof = AcceptedProof()
    /// Of the connection; see ``AcceptedToken``.
    var acceptedToken = AcceptedToken()
    /// The session of the request and the result of its check, if it needs the proof of a device.
    var checked: (session: Session, check: DeviceCheck)?
    /// See ``ExchangeRecord/credential``.
    var credential: ExchangeRecord.Credential?
    var accountEndpoint: AccountEndpoint?
    /// Whether bytes after the head cannot be interpreted, even if the response is 429.
    var isInvalid = false
    /// Index of the route in metrics and the access log; -1 if none matched.
    var routeIndex = -1
    /// Index of the rate limit that rejected the request, or would have; -1 for none.
    var limitIndex = -1
    /// The rate limits before the session that the request is charged to, by their position.
    var chargedLimits: UInt16 = 0
    /// Whether it is counted once its session is known. It is a use of the session only then.
    var awaitsLimit = false
    /// Complete field lines that report rate limits in the response, or that ask for the proof of a device.
    var rateLines: [UInt8] = []
    /// Trace context received from a trusted client.
    var traceContext: TraceContext?
    /// Ranges of a trusted client's trace fields, including its vendor data (`tracestate`).
    var traceFields = TraceContextFields()

    /// A request begins: its head is complete.
    mutating func begin(_ framing: BodyFraming, upgrade: RequestedUpgrade) {
        // The request may wait for long.
        head.bytes.releaseStorageOfLargeRead()
        self.framing = framing
        self.upgrade = upgrade
        method = RequestMethod(head.bytes.readableBytesUInt8Span.extracting(head.method.start..<head.method.end))
        isToHead = method == .head
        target = .empty
        hostRange = nil
        routeGroup = 0
        if !sentPath.isEmpty { sentPath.removeAll(keepingCapacity: true) }
        forwardedPrefix = nil
        summary = RequestHeaderPolicy.RequestHeaderSummary()
        originMatch = .notEvaluated
        otherCookies = OtherCookies()
        isInvalid = false
        credential = nil
        routeIndex = -1
        limitIndex = -1
        awaitsLimit = false
        traceContext = nil
        traceFields = TraceContextFields()
    }

    /// Replaces the request by the one that another proxy asks about. One that is not valid has an empty target, which is
    /// malformed.
    mutating func replaceByOriginal(of proxy: ForwardAuthConfiguration.Proxy, maxTarget: Int) {
        let isValid = OriginalRequest.apply(to: &head, of: proxy, maxTarget: maxTarget)
        if !isValid || upgrade != .none { head.target.count = 0 }
        method = RequestMethod(head.bytes.readableBytesUInt8Span.extracting(head.method.start..<head.method.end))
    }

    /// The exchange has ended. The properties that describe the framing and the client stay readable, because the
    /// remaining request body is discarded after the response.
    mutating func end() {
        if version == .http2 {
            // The head has its own storage, which the next request uses again.
            head.bytes.clear()
            clearHead()
        } else {
            resetHead()
        }
        releaseLargeStorage()
        ticket = nil
        if checked != nil { checked = nil }
        accountEndpoint = nil
        if !rateLines.isEmpty { rateLines = [] }
    }

    /// Releases storage that few requests need: the value may wait for the next one for long, as 32 of them do on a
    /// connection of HTTP/2, where a head of 16 KiB costs the client a few bytes.
    private mutating func releaseLargeStorage() {
        if head.bytes.storageCapacity > Self.keptStorage { head = RequestHead() }
        if normalizedPath.capacity > Self.keptStorage { normalizedPath = [] }
        if sentPath.capacity > Self.keptStorage { sentPath = [] }
        if lenientPath.capacity > Self.keptStorage { lenientPath = [] }
    }

    private static let keptStorage = 4_096

    /// Releases the head's bytes and resets the ranges into them: a head that was rejected while being parsed may have
    /// set some.
    mutating func resetHead() {
        head.bytes = ByteBuffer()
        clearHead()
    }

    private mutating func clearHead() {
        head.fields.removeAll(keepingCapacity: true)
        head.method = ByteRange(start: 0, count: 0)
        head.target = ByteRange(start: 0, count: 0)
    }

    /// Whether the request body is known to exceed a limit.
    func exceeds(_ limit: Int) -> Bool {
        if case .length(let length) = framing { length > limit } else { false }
    }

    /// Whether the request is the handshake of a WebSocket by an HTTP/1.1 upgrade (RFC 6455 §4.1).
    var isWebSocketHandshake: Bool {
        summary.requestsWebSocket && method == .get && framing == .none && version == .http1_1
    }

    /// Range of path and query in the head; for an absolute-form target without scheme and authority,
    /// unless its path was normalized.
    var receivedTarget: ByteRange {
        let isAbsolute = target.authority != nil && !target.isPathRewritten && head.target.count > target.path.start
        let start = head.target.start + (isAbsolute ? target.path.start : 0)
        return ByteRange(start: start, count: head.target.end - start)
    }

    /// The path as sent by the client, up to the length that may be logged.
    var loggablePath: String {
        let range = receivedTarget
        let bytes = head.bytes
        let count = ExchangeRecord.loggablePathLength(
            ofPath: bytes.readableBytesUInt8Span.extracting(range.start..<range.end))
        return String(decoding: head.copy(of: ByteRange(start: range.start, count: count)), as: UTF8.self)
    }

    /// The method as received, at most 32 bytes. It is a token (RFC 9110 §9.1), so it has no control characters.
    var loggableMethod: String {
        let range = ByteRange(start: head.method.start, count: min(head.method.count, 32))
        return String(decoding: head.copy(of: range), as: UTF8.self)
    }

    /// Reads the client's trace context, whether or not the client is trusted.
    func readTraceContext() -> TraceContext? {
        guard let range = TraceContextFields.read(head).parent else { return nil }
        let bytes = head.bytes
        return TraceContext(traceparent: bytes.readableBytesUInt8Span.extracting(range.start..<range.end))
    }

    /// The path in its normal form.
    var normalPath: [UInt8] {
        guard !target.isPathRewritten else { return normalizedPath }
        return target.path.isEmpty ? [UInt8(ascii: "/")] : bytes(of: target.path)
    }

    /// The path in its normal form, without its first bytes: a slice of the head, unless they differ.
    func normalPath(from start: Int) -> ByteBuffer {
        if target.isPathRewritten || target.path.isEmpty { return ByteBuffer(bytes: normalPath.dropFirst(start)) }
        let path = head.bytes.readerIndex + head.target.start + target.path.start
        return head.bytes.getSlice(at: path + start, length: target.path.count - start) ?? ByteBuffer()
    }

    /// The authority; `nil` without one.
    var host: [UInt8]? { hostRange.map { head.copy(of: $0) } }

    /// The query with its question mark; empty without one.
    var queryWithMark: [UInt8] { bytes(of: target.query) }

    /// - Parameter range: A part of ``target``.
    private func bytes(of range: ByteRange) -> [UInt8] {
        head.copy(of: ByteRange(start: head.target.start + range.start, count: range.count))
    }

    /// Path and query in their normal form.
    var normalTarget: [UInt8] { normalPath + queryWithMark }

    /// The query without its question mark.
    var query: [UInt8] { Array(queryWithMark.dropFirst()) }

    /// The path segment after the given number of segments, if it is the last one.
    func lastSegment(after count: Int) -> String? {
        let segments = normalPath.split(separator: UInt8(ascii: "/"))
        guard segments.count == count + 1, let last = segments.last else { return nil }
        return String(decoding: last, as: UTF8.self)
    }

    /// Writes the id of the request. That of a trusted peer is kept, so its logs match those of the upstream.
    func writeID(_ own: ID128, into writer: inout HeadWriter) {
        if let id = summary.requestID { writer.append(head.bytes.readableBytesSpan, id) } else { writer.append(own) }
    }

    /// The fields by which a navigation is recognized.
    var fetchMetadata: FetchMetadata { FetchMetadata(head, isGET: method == .get) }

    /// Value of a field that occurs once; `nil` if it is absent or repeated.
    func value(of name: KnownField) -> [UInt8]? {
        if case .value(let range) = range(of: name) { head.copy(of: range) } else { nil }
    }

    /// The position of the value of a field.
    func range(of name: KnownField) -> SingletonField {
        var range = SingletonField.absent
        for field in head.fields where field.name == name { range.add(field.valueRange) }
        return range
    }
}

/// The upgrade that a request asks for, if any.
enum RequestedUpgrade: Equatable {
    /// No upgrade.
    case none
    /// A WebSocket by an HTTP/1.1 upgrade (RFC 6455 §4.1).
    case webSocketUpgrade
    /// A WebSocket by an extended CONNECT (RFC 8441 §5).
    case webSocketConnect
    /// An unsupported protocol by an extended CONNECT.
    case unknown

    /// The upgrade requested by an extended CONNECT; ``none`` without one.
    init(connect protocolName: TunnelProtocol) {
        self =
            switch protocolName {
            case .none: .none
            case .webSocket: .webSocketConnect
            case .other: .unknown
            }
    }
}
