import CloakroomCore
import Testing

@Suite("The key of a client address")
struct ClientAddressKeyTests {
    @Test(
        "is an IPv4 address or the /64 of an IPv6 address, in any spelling",
        arguments: [
            ("192.0.2.1", "::ffff:192.0.2.1"), ("2001:db8::1", "2001:db8:0:0:ffff:ffff:ffff:ffff"),
            ("2001:DB8::1", "2001:db8:0::2"),
        ])
    func same(one: String, other: String) throws {
        let (one, other) = (try #require(ClientAddressKey(one)), try #require(ClientAddressKey(other)))
        #expect(one == other)
        #expect(one.bytes == other.bytes)
    }

    @Test(
        "differs for the next address or block",
        arguments: [("192.0.2.1", "192.0.2.2"), ("2001:db8:0:1::1", "2001:db8:0:2::1"), ("::1", "0.0.0.0")])
    func different(one: String, other: String) throws {
        let (one, other) = (try #require(ClientAddressKey(one)), try #require(ClientAddressKey(other)))
        #expect(one != other)
        #expect(one.bytes != other.bytes)
    }

    @Test("is nil without an IP address", arguments: ["", "localhost", "192.0.2", "[::1]", "unix:/run/x"])
    func none(address: String) {
        #expect(ClientAddressKey(address) == nil)
    }
}
