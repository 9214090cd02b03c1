public import CloakroomWire
import NIOCore

/// Which fields of a response go back to the client. Immutable.
public final class ResponseHeaderPolicy: Sendable {
    private let cookie: SessionCookie
    /// What other origins may read is said here, so the upstream's word on it ends.
    private let dropsAccessControl: Bool

    private static let allowCredentials: StaticString = "access-control-allow-credentials"

    /// What marking a response's fields told about it.
    public struct Marks: Sendable, Equatable {
        /// What `Connection` says.
        public var connection = ConnectionOptions()
        /// Whether there is a `Date`; otherwise one is added (RFC 9110 §6.6.1).
        public var hasDate = false
        /// Whether the upstream said who may cache it.
        public var hasCacheControl = false
        /// Whether the upstream said what it depends on.
        public var hasVary = false
        /// Whether there is a `Content-Length`.
        public var hasContentLength = false
        /// Whether its fields change the protocol to WebSocket (RFC 6455 §4.2.2). Whether the status is 101 is for the caller
        /// to see.
        public var isUpgradeToWebSocket = false
        /// Whether the body is an event stream, `text/event-stream`: each piece of it is awaited as it comes.
        public var isEventStream = false

        /// Marks of a response that says nothing special.
        public init() {}
    }

    /// Makes the policy.
    /// - Parameter answersCORS: Whether the gateway says itself which other origins may read answers: two such fields would
    ///   be none to a browser.
    public init(cookie: SessionCookie, answersCORS: Bool = false) {
        self.cookie = cookie
        self.dropsAccessControl = answersCORS
    }

    /// Marks the fields that end here: hop-by-hop ones, and any attempt to set or clear our cookie.
    public func mark(_ head: inout ResponseHead) -> Marks {
        let buffer = head.bytes
        let bytes = buffer.readableBytesUInt8Span
        var marks = Marks()
        let hop = HopByHop.mark(&head.fields, bytes, minorVersion: head.minorVersion)
        marks.connection = hop.connection
        marks.isUpgradeToWebSocket = hop.upgradesToWebSocket
        for index in head.fields.indices where !head.fields[index].isDropped {
            let field = head.fields[index]
            switch field.name {
            case .date: marks.hasDate = true
            case .cacheControl: marks.hasCacheControl = true
            case .vary: marks.hasVary = true
            case .contentLength:
                // Not with answers that never have a body (RFC 9110 §8.6).
                let isAllowed = head.status >= 200 && head.status != 204
                head.fields[index].isDropped = !isAllowed
                marks.hasContentLength = isAllowed
            case .contentType:
                if isEventStream(field.valueRange, bytes) { marks.isEventStream = true }
            case .setCookie:
                if cookie.isSet(by: bytes.extracting(field.valueRange.start..<field.valueRange.end)) {
                    head.fields[index].isDropped = true
                }
            case .other where dropsAccessControl:
                if Ascii.hasPrefix(bytes, field.nameRange, "access-control-") { head.fields[index].isDropped = true }
            case .other where field.nameCount == Self.allowCredentials.utf8CodeUnitCount:
                // Leave to read what the cookie opened is ours to give, and nobody else's.
                if Ascii.equals(bytes, field.nameRange, Self.allowCredentials) { head.fields[index].isDropped = true }
            default: continue
            }
        }
        return marks
    }

    /// With parameters or without (RFC 9110 §8.3.1).
    private func isEventStream(_ value: ByteRange, _ bytes: Span<UInt8>) -> Bool {
        var end = value.start
        while end < value.end, bytes[end] != UInt8(ascii: ";") { end += 1 }
        while end > value.start, bytes[end - 1] == 0x20 || bytes[end - 1] == 0x09 { end -= 1 }
        return Ascii.equals(bytes, ByteRange(start: value.start, count: end - value.start), "text/event-stream")
    }
}
