public import CloakroomWire
import NIOCore

/// Decides which fields of a request are forwarded to the upstream.
///
/// The order matters. Hop-by-hop fields are removed first, then every client copy of fields that the gateway may set,
/// in any spelling and on every route, then the session cookie. The gateway's own fields are written afterwards, so
/// that no client can remove, duplicate or replace them.
///
/// Immutable; a class, so that a reference to it costs one reference count and not one for each of its sets.
///
/// Folder `Headers/`: decides which fields and trailers of requests and responses are forwarded, for every route and
/// HTTP version.
public final class RequestHeaderPolicy: Sendable {
    /// Names that no field may have, known fields included.
    private let stripped: FieldNameSet
    /// Names that no unknown field may have.
    private let strippedUnknown: FieldNameSet
    /// Names that no unknown field of an untrusted peer may have.
    private let strippedFromUntrusted: FieldNameSet
    private let cookie: SessionCookie

    /// The properties of a request that were found while marking its fields.
    public struct RequestHeaderSummary: Sendable, Equatable {
        /// The options of `Connection`.
        public var connection = ConnectionOptions()
        /// Whether there is an `Authorization`.
        public var hasAuthorization = false
        /// Whether a `Cookie` field contains the session cookie.
        public var hasSessionCookie = false
        /// Whether the `Cookie` fields may contain cookies of the gateway and others, which have to be rewritten.
        public var rewritesCookies = false
        /// Whether `X-Forwarded-Proto` of a trusted peer is kept.
        public var trustsForwardedProto = false
        /// Whether `X-Forwarded-Host` of a trusted peer is kept.
        public var trustsForwardedHost = false
        /// The content of `Expect`.
        public var expectation = Expectation.none
        /// Whether the client accepts trailers in the response: `TE: trailers` (RFC 9110 §10.1.4).
        public var acceptsTrailers = false
        /// Whether the client requests a WebSocket (RFC 6455 §4.2.1). The caller checks that the method is `GET`.
        public var requestsWebSocket = false
        /// How often an `OPTIONS` request may still be forwarded; the field is rewritten with one less.
        public var maxForwards = MaxForwards.absent
        /// The position of a trusted peer's `X-Request-Id`, if there is one and it is valid.
        public var requestID: ByteRange?
        /// The position of `Origin` (RFC 6454 §7).
        public var origin = SingletonField.absent
        /// The position of `Sec-Fetch-Site` (Fetch Metadata Request Headers §2.4).
        public var fetchSite = SingletonField.absent

        /// Creates the properties of a request without special fields.
        public init() {}
    }

    /// The client's expectation before it sends its body (RFC 9110 §10.1.1).
    public enum Expectation: Sendable, Equatable {
        case none
        /// `100-continue`.
        case `continue`
        /// An unsupported expectation: 417.
        case unknown
    }

    /// Creates the policy.
    /// - Parameters:
    ///   - injectable: The names of all fields that any route may inject, besides `Authorization`.
    ///     `X-Client-Cert-Subject`, the subject of a client certificate, is always stripped on every route.
    ///   - cookie: The session cookie.
    public init(injectable: [String], cookie: SessionCookie) {
        let ours = injectable + ["Authorization", "Proxy-Authorization", "X-Client-Cert-Subject"]
        // Other spellings of the framing fields, and the field that CGI maps to the name of a proxy to use.
        let others = ours + ["Content-Length", "Transfer-Encoding", "Proxy"]
        stripped = FieldNameSet(ours)
        strippedUnknown = FieldNameSet(others + SpoofableFields.names, prefixes: SpoofableFields.prefixes)
        strippedFromUntrusted = FieldNameSet(
            others + SpoofableFields.names
                + ["Forwarded", "Via", "X-Real-IP", "X-Request-Id", "Traceparent", "Tracestate"],
            prefixes: ["X-Forwarded-"] + SpoofableFields.prefixes)
        self.cookie = cookie
    }

    /// Marks the fields that are not forwarded.
    /// - Parameter isTrusted: Whether the peer may report the client that it forwards for.
    public func apply(_ head: inout RequestHead, isTrusted: Bool) -> RequestHeaderSummary {
        var others = OtherCookies()
        let reading = cookie.read(head, others: &others)
        return apply(&head, isTrusted: isTrusted, reading: reading, hasForeign: others.hasForeign)
    }

    /// Marks the fields that are not forwarded.
    /// - Parameters:
    ///   - isTrusted: Whether the peer may report the client that it forwards for.
    ///   - reading: The result of reading the session cookie.
    ///   - hasForeign: ``OtherCookies/hasForeign`` of that reading.
    package func apply(
        _ head: inout RequestHead, isTrusted: Bool, reading: SessionCookie.ParseResult, hasForeign: Bool
    ) -> RequestHeaderSummary {
        let buffer = head.bytes
        let bytes = buffer.readableBytesUInt8Span
        var summary = RequestHeaderSummary()
        summary.hasSessionCookie = reading != .absent
        // Where there are other cookies, searching the fields for them would cost as much as rewriting the fields.
        let stripsCookies = summary.hasSessionCookie || cookie.hasOthers
        summary.rewritesCookies = stripsCookies && hasForeign
        let hop = HopByHopFields.apply(&head.fields, bytes, minorVersion: head.minorVersion)
        summary.connection = hop.connection
        summary.acceptsTrailers = hop.acceptsTrailers
        summary.requestsWebSocket = hop.upgradesToWebSocket
        var requestID = RequestIDField()
        for index in head.fields.indices where !head.fields[index].isStripped {
            let field = head.fields[index]
            switch field.name {
            case .authorization:
                head.fields[index].isStripped = true
                summary.hasAuthorization = true
            case .host, .traceparent, .tracestate:
                // Parsed before and rewritten.
                head.fields[index].isStripped = true
            case .xRequestID:
                head.fields[index].isStripped = true
                if isTrusted { requestID.add(field.valueRange, bytes) }
            case .maxForwards:
                // Methods are case-sensitive (RFC 9110 §9.1).
                if ASCII.equalsCaseSensitive(bytes, head.method, "OPTIONS") {
                    head.fields[index].isStripped = true
                    summary.maxForwards.add(field.valueRange, bytes)
                } else if stripped.contains(bytes, field.nameRange) {
                    head.fields[index].isStripped = true
                }
            case .xForwardedProto:
                head.fields[index].isStripped = !isTrusted
                summary.trustsForwardedProto = isTrusted
            case .xForwardedHost:
                head.fields[index].isStripped = !isTrusted
                summary.trustsForwardedHost = isTrusted
            case .via, .forwarded, .xForwardedFor, .xForwardedPort, .xForwardedServer, .xRealIP:
                head.fields[index].isStripped = !isTrusted
            case .cookie:
                head.fields[index].isStripped = stripsCookies
            case .expect:
                // The gateway asks for the body itself.
                head.fields[index].isStripped = true
                let isKnown = summary.expectation != .unknown && ASCII.equals(bytes, field.valueRange, "100-continue")
                summary.expectation = isKnown ? .continue : .unknown
            case .origin:
                summary.origin.add(field.valueRange)
                if stripped.contains(bytes, field.nameRange) { head.fields[index].isStripped = true }
            case .secFetchSite:
                summary.fetchSite.add(field.valueRange)
                if stripped.contains(bytes, field.nameRange) { head.fields[index].isStripped = true }
            case .other:
                let isStripped =
                    isTrusted
                    ? strippedUnknown.contains(bytes, field.nameRange)
                    : strippedFromUntrusted.contains(bytes, field.nameRange)
                if isStripped { head.fields[index].isStripped = true }
            default:
                if stripped.contains(bytes, field.nameRange) { head.fields[index].isStripped = true }
            }
        }
        summary.requestID = requestID.range
        return summary
    }

    private static let forwardedPrefix = FieldNameSet(["X-Forwarded-Prefix"])

    /// Marks every spelling of `X-Forwarded-Prefix` as stripped, for a route that sets it.
    /// - Returns: The position of the value of a trusted peer; `nil` unless there is exactly one, and it is a path in the
    ///   normal form of ``RequestTarget``, without a slash at the end.
    package static func takeForwardedPrefix(from head: inout RequestHead) -> ByteRange? {
        let buffer = head.bytes
        let bytes = buffer.readableBytesUInt8Span
        var prefix = SingletonField.absent
        for index in head.fields.indices where forwardedPrefix.contains(bytes, head.fields[index].nameRange) {
            let field = head.fields[index]
            head.fields[index].isStripped = true
            guard !field.isStripped, ASCII.equals(bytes, field.nameRange, "x-forwarded-prefix") else { continue }
            prefix.add(field.valueRange)
        }
        var normal: [UInt8] = []
        guard case .value(let range) = prefix, bytes[range.end - 1] != UInt8(ascii: "/"),
            let target = try? RequestTarget.parse(bytes.extracting(range.start..<range.end), scratch: &normal),
            target.path.count == range.count,
            !target.isPathRewritten
                || normal == buffer.getBytes(at: buffer.readerIndex + range.start, length: range.count)
        else { return nil }
        return range
    }

    /// Keeps fields that a route lists, except those that the gateway sets itself and those that `Connection` names.
    /// - Parameter names: In lower case; only these spellings are kept.
    public func passOn(_ names: [[UInt8]], in head: inout RequestHead) {
        let buffer = head.bytes
        let bytes = buffer.readableBytesUInt8Span
        let nominated = HopByHopFields.Nominations(head.fields, bytes)
        for index in head.fields.indices where head.fields[index].isStripped && head.fields[index].name == .other {
            let name = head.fields[index].nameRange
            guard names.contains(where: { ASCII.equals(bytes, name, $0) }), !stripped.contains(bytes, name),
                !nominated.contains(name, bytes)
            else { continue }
            head.fields[index].isStripped = false
        }
    }
}

/// The `X-Request-Id` of a trusted peer. If it is accepted, it appears in logs and problem documents.
struct RequestIDField {
    /// The maximum length, longer than any identifier in use.
    static let maxLength = 128

    /// The position of the accepted value.
    private(set) var range: ByteRange?
    private var isRejected = false

    /// Adds another occurrence of the field. If there are several, none is accepted.
    mutating func add(_ candidate: ByteRange, _ bytes: Span<UInt8>) {
        if isRejected || range != nil || !isAcceptable(candidate, bytes) {
            isRejected = true
            range = nil
        } else {
            range = candidate
        }
    }

    /// Allows the characters of identifiers, base64 and addresses; no quotes or separators of logs and lists.
    private func isAcceptable(_ range: ByteRange, _ bytes: Span<UInt8>) -> Bool {
        guard range.count >= 1, range.count <= Self.maxLength else { return false }
        for index in range.start..<range.end {
            switch bytes[index] {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"):
                continue
            case UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"), UInt8(ascii: "+"),
                UInt8(ascii: "/"), UInt8(ascii: "="), UInt8(ascii: ":"), UInt8(ascii: "@"):
                continue
            default: return false
            }
        }
        return true
    }
}
