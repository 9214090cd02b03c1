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

    /// Reads the fields of a request. Of a field that occurs more than once the last value counts: each is verified.
    /// - Parameter cookie: The position of the bound cookie's value.
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

/// Why a browser did not refresh the proof of its session: `Secure-Session-Skipped`. Counted, and never believed.
public enum DeviceSkip: String, Sendable, CaseIterable {
    case quotaExceeded = "quota_exceeded"
    case unreachable, other
    case serverError = "server_error"

    /// The first cause of a request; `nil` for none.
    package init?(_ head: borrowing RequestHead) {
        let bytes = head.bytes.readableBytesUInt8Span
        let name = head.fields.first { ASCII.equals(bytes, $0.nameRange, "secure-session-skipped") }
        guard let value = name?.valueRange else { return nil }
        self =
            Self.allCases.first { cause in
                let text = Array(cause.rawValue.utf8)
                let range = ByteRange(start: value.start, count: min(value.count, text.count))
                return ASCII.equals(bytes, range, text)
            } ?? .other
    }
}
