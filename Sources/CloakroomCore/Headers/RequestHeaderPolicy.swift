public import CloakroomWire
import NIOCore

/// Which fields of a request go on to the upstream.
///
/// The order is the point: what ends at this hop goes first, then every client copy of what the gateway may set, in any
/// spelling and on every route, then the session's cookie. What the gateway sets is written afterwards, anew, so that no
/// client can take it away, double it or send it in its place.
///
/// Immutable; a class, so that asking it costs one reference and not one for each of its sets.
public final class RequestHeaderPolicy: Sendable {
    /// What no field may be named, known ones included.
    private let stripped: FieldNameSet
    /// What no field that is not known may be named.
    private let strippedUnknown: FieldNameSet
    /// The same for peers that are not trusted.
    private let strippedFromUntrusted: FieldNameSet
    private let cookie: SessionCookie

    /// What marking a request's fields told about it.
    public struct RequestHeaderSummary: Sendable, Equatable {
        /// What `Connection` says.
        public var connection = ConnectionOptions()
        /// Whether a `Cookie` field holds our cookie, so that the others in it are to be written again.
        public var hasSessionCookie = false
        /// Whether a trusted peer's `X-Forwarded-Proto` stands.
        public var trustsForwardedProto = false
        /// Whether a trusted peer's `X-Forwarded-Host` stands.
        public var trustsForwardedHost = false
        /// What `Expect` says.
        public var expectation = Expectation.none
        /// Whether the client takes trailers with the answer: `TE: trailers` (RFC 9110 §10.1.4).
        public var acceptsTrailers = false
        /// Whether the client asks for a WebSocket (RFC 6455 §4.2.1). Whether the method is `GET` is for the caller to see.
        public var requestsWebSocket = false
        /// How far an `OPTIONS` request may still go; the field is to be written again with one less.
        public var maxForwards = MaxForwards.absent
        /// Where a trusted peer's `X-Request-Id` stands, if there is one and it is fit to be passed on.
        public var requestID: ByteRange?
        /// Where `Origin` stands (RFC 6454 §7).
        public var origin = SingletonField.absent
        /// Where `Sec-Fetch-Site` stands (Fetch Metadata Request Headers §2.4).
        public var fetchSite = SingletonField.absent

        /// Marks of a request that says nothing special.
        public init() {}
    }

    /// What a client expects before it sends its body (RFC 9110 §10.1.1).
    public enum Expectation: Sendable, Equatable {
        /// Nothing.
        case none
        /// `100-continue`.
        case `continue`
        /// Something that is not known: 417.
        case unknown
    }

    /// Makes the policy.
    /// - Parameters:
    ///   - injectable: The names of all fields that any route may inject, besides `Authorization`. The name of who a
    ///     client certificate is for, `X-Client-Cert-Subject`, is stripped on every route in any case.
    ///   - cookie: The session's cookie.
    public init(injectable: [String], cookie: SessionCookie) {
        let ours = injectable + ["Authorization", "Proxy-Authorization", "X-Client-Cert-Subject"]
        // Other spellings of what frames a message, and what CGI would read as the name of a proxy to use.
        let others = ours + ["Content-Length", "Transfer-Encoding", "Proxy"]
        stripped = FieldNameSet(ours)
        strippedUnknown = FieldNameSet(others + ClaimFields.names, prefixes: ClaimFields.prefixes)
        strippedFromUntrusted = FieldNameSet(
            others + ClaimFields.names
                + ["Forwarded", "Via", "X-Real-IP", "X-Request-Id", "Traceparent", "Tracestate"],
            prefixes: ["X-Forwarded-"] + ClaimFields.prefixes)
        self.cookie = cookie
    }

    /// Marks the fields that end here.
    /// - Parameter isTrusted: Whether the peer may tell who it forwards for.
    public func apply(_ head: inout RequestHead, isTrusted: Bool) -> RequestHeaderSummary {
        let reading = cookie.read(head)
        return apply(&head, isTrusted: isTrusted, reading: reading)
    }

    /// Marks the fields that end here.
    /// - Parameters:
    ///   - isTrusted: Whether the peer may tell who it forwards for.
    ///   - reading: What the request carries under the name of the session's cookie.
    public func apply(_ head: inout RequestHead, isTrusted: Bool, reading: SessionCookie.ParseResult)
        -> RequestHeaderSummary
    {
        let buffer = head.bytes
        let bytes = buffer.readableBytesUInt8Span
        var summary = RequestHeaderSummary()
        summary.hasSessionCookie = reading != .absent
        let hop = HopByHopFields.apply(&head.fields, bytes, minorVersion: head.minorVersion)
        summary.connection = hop.connection
        summary.acceptsTrailers = hop.acceptsTrailers
        summary.requestsWebSocket = hop.upgradesToWebSocket
        var requestID = RequestIDField()
        for index in head.fields.indices where !head.fields[index].isStripped {
            let field = head.fields[index]
            switch field.name {
            case .host, .authorization, .traceparent, .tracestate:
                // Read before and written anew.
                head.fields[index].isStripped = true
            case .xRequestID:
                head.fields[index].isStripped = true
                if isTrusted { requestID.add(field.valueRange, bytes) }
            case .maxForwards:
                // Methods have their case (RFC 9110 §9.1).
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
                head.fields[index].isStripped = summary.hasSessionCookie
            case .expect:
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
    /// Lets fields that a route lists go on after all. Not what the gateway sets itself, and not what `Connection` names.
    /// - Parameter names: In lower case; only these spellings go on.
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
