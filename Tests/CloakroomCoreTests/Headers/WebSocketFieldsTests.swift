import CloakroomWire
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Fields of a WebSocket handshake (RFC 6455 §4.2.1; RFC 8441 §5)")
struct WebSocketFieldsTests {
    /// Returns the field lines that are kept; `nil` if they are ambiguous.
    private func remaining(_ writesKey: Bool, _ lines: String...) throws -> [String]? {
        var head = try RequestHead.with(lines: lines)
        let isUnambiguous = WebSocketFields.settle(&head, writesKey: writesKey)
        return isUnambiguous ? head.kept : nil
    }

    @Test("If the gateway writes the key, the client's key and accept fields are removed in any spelling")
    func ownKey() throws {
        let left = try remaining(
            true, "Sec-WebSocket-Key: a", "sec_websocket_key: b", "Sec-WebSocket-Key: c", "Sec-WebSocket-Accept: d",
            "sec.websocket.accept: e", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Protocol: chat")
        expect(left, equals: ["Sec-WebSocket-Version: 13", "Sec-WebSocket-Protocol: chat"])
    }

    @Test("If the client's key is forwarded, a second one is ambiguous")
    func clientKey() throws {
        try expect(remaining(false, "Sec-WebSocket-Key: a", "A: b"), equals: ["Sec-WebSocket-Key: a", "A: b"])
        try expect(remaining(false, "Sec-WebSocket-Key: a", "Sec-WebSocket-Key: a"), equals: nil)
        try expect(remaining(false, "Sec-WebSocket-Key: a", "Sec_WebSocket_Key: a"), equals: nil)
    }

    @Test("Two versions are ambiguous", arguments: [true, false])
    func versions(writesKey: Bool) throws {
        try expect(remaining(writesKey, "Sec-WebSocket-Version: 13", "Sec-WebSocket-Version: 8"), equals: nil)
    }
}
