import CloakroomCore
import CloakroomWire
import Testing

@Suite("Whom a request came from")
struct ClientAddressTests {
    private let trusted = ["10.0.0.0/8", "fd00::/8"].compactMap(CIDRBlock.init)

    private func find(_ fields: String...) throws -> String {
        let head = try RequestHead.with(lines: fields.map { "X-Forwarded-For: \($0)" })
        return ClientAddress.resolve(head, peer: "10.0.0.1", trusted: trusted)
    }

    @Test("Without the field it is the peer")
    func absent() throws {
        #expect(try find() == "10.0.0.1")
        #expect(try find("") == "10.0.0.1")
    }

    @Test(
        "Rule 7: it is the last address that no trusted peer vouches for; what a stranger wrote before it does not count"
    )
    func chain() throws {
        #expect(try find("192.0.2.7") == "192.0.2.7")
        #expect(try find("1.2.3.4, 192.0.2.7") == "192.0.2.7")
        #expect(try find("1.2.3.4, 192.0.2.7, 10.9.9.9") == "192.0.2.7")
        #expect(try find("1.2.3.4", "192.0.2.7", "10.9.9.9 , 10.1.1.1") == "192.0.2.7")
        #expect(try find("10.5.5.5, 10.6.6.6") == "10.5.5.5")
    }

    @Test("Ports and brackets are left out")
    func spelling() throws {
        #expect(try find("192.0.2.7:4711") == "192.0.2.7")
        #expect(try find("[2001:db8::1]:4711") == "2001:db8::1")
        #expect(try find("2001:db8::1") == "2001:db8::1")
        #expect(try find("2001:db8::1, fd00::2") == "2001:db8::1")
    }

    @Test(
        "What is no address ends the way back",
        arguments: ["unknown", "a b", "[::1", "300.1.1.1", "_secret", "1.2.3.4:x:y"])
    func nonsense(text: String) throws {
        let found = try find("192.0.2.7, \(text), 10.1.1.1")
        #expect(found == (text == "1.2.3.4:x:y" ? "1.2.3.4" : "10.1.1.1"))
    }
}
