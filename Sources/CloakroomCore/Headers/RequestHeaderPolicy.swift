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
    ///   - injectable: The names of all fields that any route may inject, besides `Authorization`.
    ///   - cookie: The session's cookie.
    public init(injectable: [String], cookie: SessionCookie) {
        let ours = injectable + ["Authorization", "Proxy-Authorization"]
        // Other spellings of what frames a message, and what CGI would read as the name of a proxy to use.
        let others = ours + ["Content-Length", "Transfer-Encoding", "Proxy"]
        stripped = FieldNameSet(ours)
        strippedFromAll = FieldNameSet(others)
        strippedFromStrangers = FieldNameSet(
            others + ["Forwarded", "Via", "X-Real-IP", "X-Request-Id", "Traceparent", "Tracestate"],
            prefix: "X-Forwarded-")
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
        marks.connection = HopByHop.mark(&head.fields, bytes)
        for index in head.fields.indices where !head.fields[index].isDropped {
            let field = head.fields[index]
            switch field.name {
            case .host, .authorization, .xRequestID, .traceparent, .tracestate:
                // Read before and written anew.
                head.fields[index].isDropped = true
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
                let isKnown = marks.expectation != .unknown && isContinue(bytes, field.valueRange)
                marks.expectation = isKnown ? .continue : .unknown
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
        return marks
    }

    private func isContinue(_ bytes: Span<UInt8>, _ range: ByteRange) -> Bool {
        let expected: StaticString = "100-continue"
        guard range.count == expected.utf8CodeUnitCount else { return false }
        return expected.withUTF8Buffer { expected in
            for offset in 0..<range.count where bytes[range.start + offset] | 0x20 != expected[offset] | 0x20 {
                return false
            }
            return true
        }
    }
}
