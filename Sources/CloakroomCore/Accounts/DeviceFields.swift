package import CloakroomWire
import NIOCore

/// What a request has of the protocol of device-bound sessions. Nothing is verified.
public struct DeviceFields: Sendable, Equatable, Unprintable {
    /// The maximum length of a signed proof in bytes.
    package static let maxProof = 4_096

    /// The value of the bound cookie; empty unless there is exactly one.
    public var cookie: [UInt8] = []
    /// `Secure-Session-Response`, a signed proof, which some clients quote; `nil` for none.
    public var proof: [UInt8]?
    /// `Sec-Secure-Session-Id`, the session as the client knows it; `nil` for none.
    public var sessionID: [UInt8]?

    package init() {}

    /// Reads the fields of a request, and the value of the bound cookie. Of more fields the last one counts: each is verified.
    package init(_ head: borrowing RequestHead, cookie: SingletonField) {
        let bytes = head.bytes.readableBytesUInt8Span
        func value(_ range: ByteRange) -> [UInt8] { (range.start..<range.end).map { bytes[$0] } }
        if case .value(let range) = cookie { self.cookie = value(range) }
        for field in head.fields {
            if ASCII.equals(bytes, field.nameRange, "secure-session-response") {
                proof = Self.unquoted(value(field.valueRange))
            } else if ASCII.equals(bytes, field.nameRange, "sec-secure-session-id") {
                sessionID = Self.unquoted(value(field.valueRange))
            }
        }
    }

    /// A string of a structured field (RFC 9651 §3.3.3), which has no escapes here, or the text itself.
    private static func unquoted(_ text: [UInt8]) -> [UInt8] {
        let quote = UInt8(ascii: "\"")
        return text.count >= 2 && text.first == quote && text.last == quote ? Array(text.dropFirst().dropLast()) : text
    }
}
