import CloakroomWire
import Testing

@testable import CloakroomCore

@Suite("Fields of a request for a WebSocket (RFC 6455 §4.2.1; RFC 8441 §5)")
struct WebSocketFieldsTests {
    /// What is left of the given lines; `nil` if it could be read in two ways.
    private func settled(_ writesKey: Bool, _ lines: String...) throws -> [String]? {
        var head = try RequestHead.with(lines: lines)
        let isUnambiguous = WebSocketFields.settle(&head, writesKey: writesKey)
        return isUnambiguous ? head.kept : nil
    }

    @Test("Where the gateway writes the key, the client's own is removed in any spelling, and so is an accept")
    func ownKey() throws {
        let left = try settled(
            true, "Sec-WebSocket-Key: a", "sec_websocket_key: b", "Sec-WebSocket-Key: c", "Sec-WebSocket-Accept: d",
            "sec.websocket.accept: e", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Protocol: chat")
        #expect(left == ["Sec-WebSocket-Version: 13", "Sec-WebSocket-Protocol: chat"])
    }

    @Test("Where the client's own goes on there is one of it")
    func clientKey() throws {
        let left = try settled(false, "Sec-WebSocket-Key: a", "A: b")
        #expect(left == ["Sec-WebSocket-Key: a", "A: b"])
        let twice = try settled(false, "Sec-WebSocket-Key: a", "Sec-WebSocket-Key: a")
        #expect(twice == nil)
        let folded = try settled(false, "Sec-WebSocket-Key: a", "Sec_WebSocket_Key: a")
        #expect(folded == nil)
    }

    @Test("Two versions can be read in two ways", arguments: [true, false])
    func versions(writesKey: Bool) throws {
        let left = try settled(writesKey, "Sec-WebSocket-Version: 13", "Sec-WebSocket-Version: 8")
        #expect(left == nil)
    }
}
