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
    private let strippedFromAll: FieldNameSet
    /// The same for peers that are not trusted.
    private let strippedFromStrangers: FieldNameSet
    private let cookie: SessionCookie

    /// What marking a request's fields told about it.
    public struct Marks: Sendable, Equatable {
        /// What `Connection` says.
        public var connection = ConnectionOptions()
        /// Whether a `Cookie` field holds our cookie, so that the others in it are to be written again.
        public var hasOurCookie = false
        /// Whether a trusted peer's `X-Forwarded-Proto` stands.
        public var keepsForwardedProto = false
        /// Whether a trusted peer's `X-Forwarded-Host` stands.
        public var keepsForwardedHost = false
        /// What `Expect` says.
        public var expectation = Expectation.none
        /// Whether the client takes trailers with the answer: `TE: trailers` (RFC 9110 §10.1.4).
        public var acceptsTrailers = false
        /// Whether the client asks for a WebSocket (RFC 6455 §4.2.1). Whether the method is `GET` is for the caller to see.
        public var wantsWebSocket = false
        /// How far an `OPTIONS` request may still go; the field is to be written again with one less.
        public var maxForwards = MaxForwards.absent
        /// Where a trusted peer's `X-Request-Id` stands, if there is one and it is fit to be passed on.
        public var requestID: ByteRange?
        /// Where `Origin` stands (RFC 6454 §7).
        public var origin = SingleField.absent
        /// Where `Sec-Fetch-Site` stands (Fetch Metadata Request Headers §2.4).
        public var fetchSite = SingleField.absent

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
        strippedFromAll = FieldNameSet(others + ClaimFields.names, prefixes: ClaimFields.prefixes)
        strippedFromStrangers = FieldNameSet(
            others + ClaimFields.names
                + ["Forwarded", "Via", "X-Real-IP", "X-Request-Id", "Traceparent", "Tracestate"],
            prefixes: ["X-Forwarded-"] + ClaimFields.prefixes)
        self.cookie = cookie
    }

    /// Marks the fields that end here.
    /// - Parameter isTrusted: Whether the peer may tell who it forwards for.
    public func mark(_ head: inout RequestHead, isTrusted: Bool) -> Marks {
        let reading = cookie.read(head)
        return mark(&head, isTrusted: isTrusted, reading: reading)
    }

    /// Marks the fields that end here.
    /// - Parameters:
    ///   - isTrusted: Whether the peer may tell who it forwards for.
    ///   - reading: What the request carries under the name of the session's cookie.
    public func mark(_ head: inout RequestHead, isTrusted: Bool, reading: SessionCookie.Reading) -> Marks {
        let buffer = head.bytes
        let bytes = buffer.readableBytesUInt8Span
        var marks = Marks()
        marks.hasOurCookie = reading != .absent
        let hop = HopByHop.mark(&head.fields, bytes, minorVersion: head.minorVersion)
        marks.connection = hop.connection
        marks.acceptsTrailers = hop.acceptsTrailers
        marks.wantsWebSocket = hop.upgradesToWebSocket
        var requestID = RequestIDField()
        for index in head.fields.indices where !head.fields[index].isDropped {
            let field = head.fields[index]
            switch field.name {
            case .host, .authorization, .traceparent, .tracestate:
                // Read before and written anew.
                head.fields[index].isDropped = true
            case .xRequestID:
                head.fields[index].isDropped = true
                if isTrusted { requestID.see(field.valueRange, bytes) }
            case .maxForwards:
                // Methods have their case (RFC 9110 §9.1).
                if Ascii.isExactly(bytes, head.method, "OPTIONS") {
                    head.fields[index].isDropped = true
                    marks.maxForwards.see(field.valueRange, bytes)
                } else if stripped.contains(bytes, field.nameRange) {
                    head.fields[index].isDropped = true
                }
            case .xForwardedProto:
                head.fields[index].isDropped = !isTrusted
                marks.keepsForwardedProto = isTrusted
            case .xForwardedHost:
                head.fields[index].isDropped = !isTrusted
                marks.keepsForwardedHost = isTrusted
            case .via, .forwarded, .xForwardedFor, .xForwardedPort, .xForwardedServer, .xRealIP:
                head.fields[index].isDropped = !isTrusted
            case .cookie:
                head.fields[index].isDropped = marks.hasOurCookie
            case .expect:
                let isKnown = marks.expectation != .unknown && Ascii.equals(bytes, field.valueRange, "100-continue")
                marks.expectation = isKnown ? .continue : .unknown
            case .origin:
                marks.origin.see(field.valueRange)
                if stripped.contains(bytes, field.nameRange) { head.fields[index].isDropped = true }
            case .secFetchSite:
                marks.fetchSite.see(field.valueRange)
                if stripped.contains(bytes, field.nameRange) { head.fields[index].isDropped = true }
            case .other:
                let isStripped =
                    isTrusted
                    ? strippedFromAll.contains(bytes, field.nameRange)
                    : strippedFromStrangers.contains(bytes, field.nameRange)
                if isStripped { head.fields[index].isDropped = true }
            default:
                if stripped.contains(bytes, field.nameRange) { head.fields[index].isDropped = true }
            }
        }
        marks.requestID = requestID.range
        return marks
    }
    /// Lets fields that a route lists go on after all. Not what the gateway sets itself, and not what `Connection` names.
    /// - Parameter names: In lower case; only these spellings go on.
    public func passOn(_ names: [[UInt8]], in head: inout RequestHead) {
        let buffer = head.bytes
        let bytes = buffer.readableBytesUInt8Span
        let nominated = HopByHop.Nominations(head.fields, bytes)
        for index in head.fields.indices where head.fields[index].isDropped && head.fields[index].name == .other {
            let name = head.fields[index].nameRange
            guard names.contains(where: { Ascii.equals(bytes, name, $0) }), !stripped.contains(bytes, name),
                !nominated.contains(name, bytes)
            else { continue }
            head.fields[index].isDropped = false
        }
    }
}
