import CloakroomWire
import Testing

/// The bytes of one connection, and the expected result of parsing them.
struct WireCase: Sendable, CustomTestStringConvertible {
    /// The situation, with the relevant section of the RFC.
    let name: String
    let bytes: [UInt8]
    /// The messages as text; an incomplete message has ` …` at its end.
    let messages: [String]
    let error: WireError?
    let leftover: [UInt8]

    var testDescription: String { name }

    static func reads(_ name: String, _ text: String, _ messages: String..., leftover: String = "") -> WireCase {
        WireCase(name: name, bytes: Array(text.utf8), messages: messages, error: nil, leftover: Array(leftover.utf8))
    }

    static func rejects(_ name: String, _ text: String, _ error: WireError, after messages: String...) -> WireCase {
        WireCase(name: name, bytes: Array(text.utf8), messages: messages, error: error, leftover: [])
    }

    static func rejects(_ name: String, bytes: [UInt8], _ error: WireError) -> WireCase {
        WireCase(name: name, bytes: bytes, messages: [], error: error, leftover: [])
    }
}
