import CloakroomCore
import TestSupport
import Testing

@Suite("The key of a client address")
struct ClientAddressKeyTests {
    @Test(
        "is an IPv4 address or the /64 of an IPv6 address, in any spelling, and differs for the next one",
        arguments: [
            ("192.0.2.1", "::ffff:192.0.2.1", true), ("2001:db8::1", "2001:db8:0:0:ffff:ffff:ffff:ffff", true),
            ("2001:DB8::1", "2001:db8:0::2", true), ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("2001:db8:0:1::1", "2001:db8:0:2::1", false), ("::1", "0.0.0.0", false),
        ])
    func blocks(one: String, other: String, areSame: Bool) throws {
        let (one, other) = (try require(ClientAddressKey(one)), try require(ClientAddressKey(other)))
        expect(one == other, equals: areSame)
        expect(one.bytes == other.bytes, equals: areSame)
    }

    @Test("is nil without an IP address", arguments: ["", "localhost", "192.0.2", "[::1]", "unix:/run/x"])
    func none(address: String) {
        expect(ClientAddressKey(address), equals: nil)
    }
}
