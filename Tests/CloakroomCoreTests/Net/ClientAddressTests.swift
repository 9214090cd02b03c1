import CloakroomCore
import CloakroomWire
import TestSupport
import Testing

@Suite("Client address")
struct ClientAddressTests {
    private let trusted = ["10.0.0.0/8", "fd00::/8"].compactMap(CIDRBlock.init)

    private func find(_ fields: String...) throws -> String {
        let head = try RequestHead.with(lines: fields.map { "X-Forwarded-For: \($0)" })
        let address = ClientAddress.resolve(head, peer: "10.0.0.1", trusted: trusted)
        let key = ClientAddress.key(head, trusted: trusted)
        // Without an address in the field there is no key: the peer itself is not a client.
        expect(key == ClientAddressKey(address) || (key == nil && address == "10.0.0.1"))
        return address
    }

    @Test("Without the field it is the peer's address")
    func absent() throws {
        try expect(find(), equals: "10.0.0.1")
        try expect(find(""), equals: "10.0.0.1")
    }

    @Test(
        "Rule 7: it is the last untrusted address; entries before it are ignored"
    )
    func chain() throws {
        try expect(find("192.0.2.7"), equals: "192.0.2.7")
        try expect(find("1.2.3.4, 192.0.2.7"), equals: "192.0.2.7")
        try expect(find("1.2.3.4, 192.0.2.7, 10.9.9.9"), equals: "192.0.2.7")
        try expect(find("1.2.3.4", "192.0.2.7", "10.9.9.9 , 10.1.1.1"), equals: "192.0.2.7")
        try expect(find("10.5.5.5, 10.6.6.6"), equals: "10.5.5.5")
    }

    @Test("Ports and brackets are removed")
    func spelling() throws {
        try expect(find("192.0.2.7:4711"), equals: "192.0.2.7")
        try expect(find("[2001:db8::1]:4711"), equals: "2001:db8::1")
        try expect(find("2001:db8::1"), equals: "2001:db8::1")
        try expect(find("2001:db8::1, fd00::2"), equals: "2001:db8::1")
    }

    @Test(
        "An invalid address ends the search",
        arguments: ["unknown", "a b", "[::1", "300.1.1.1", "_secret", "1.2.3.4:x:y"])
    func nonsense(text: String) throws {
        try expect(find("192.0.2.7, \(text), 10.1.1.1"), equals: (text == "1.2.3.4:x:y" ? "1.2.3.4" : "10.1.1.1"))
    }

    @Test("A member costs linear time, also a text that is slow to normalize")
    func linear() {
        for start in ["", "["] {
            let ratio = LinearTime.ratio(ofMarks: { _ = try? find("192.0.2.7, \(start)\($0), 10.1.1.1") })
            #expect(ratio < 4, "\(ratio)")
        }
    }
}
