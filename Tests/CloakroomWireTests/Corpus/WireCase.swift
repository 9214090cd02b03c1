import CloakroomWire
import Testing

/// Bytes of one connection, and what reading them must give.
struct WireCase: Sendable, CustomTestStringConvertible {
    /// The situation, with the section of the RFC that speaks of it.
    let name: String
    let bytes: [UInt8]
    /// The messages as text, a message that was begun and not finished with ` …` at its end.
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
