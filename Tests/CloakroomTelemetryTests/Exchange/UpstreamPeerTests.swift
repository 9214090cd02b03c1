import TestSupport
import Testing

@testable import CloakroomTelemetry

@Suite("The address of a target in a log line")
struct UpstreamPeerTests {
    private func text(_ peer: UpstreamPeer) -> String {
        var line = LineBuffer()
        line.append(peer)
        return line.text
    }

    @Test(
        "An address is written in its recommended form",
        arguments: [
            ("10.0.0.1", "10.0.0.1:80"), ("255.255.255.255", "255.255.255.255:80"), ("0.0.0.0", "0.0.0.0:80"),
            ("::", "[::]:80"), ("::1", "[::1]:80"), ("1::", "[1::]:80"), ("2001:db8::1", "[2001:db8::1]:80"),
            ("2001:DB8:0:1:1:1:1:1", "[2001:db8:0:1:1:1:1:1]:80"), ("2001:0:0:1:0:0:0:1", "[2001:0:0:1::1]:80"),
            ("2001:db8:0:0:1:0:0:1", "[2001:db8::1:0:0:1]:80"), ("1:2:3:4:5:6:7:8", "[1:2:3:4:5:6:7:8]:80"),
            ("fe80::abcd:0fff:10:0", "[fe80::abcd:fff:10:0]:80"), ("0:1:2:3:4:5:0:0", "[0:1:2:3:4:5::]:80"),
        ])
    func form(_ address: String, _ expected: String) throws {
        expect(text(try require(UpstreamPeer(address: address, port: 80))), equals: expected)
    }

    @Test("A host name is not an address")
    func name() {
        expect(UpstreamPeer(address: "api.test", port: 80), equals: nil)
        expect(UpstreamPeer(address: "", port: 80), equals: nil)
    }

    @Test("Both ways to create an address agree")
    func parts() throws {
        expect(UpstreamPeer(address: "10.0.0.1", port: 65_535), equals: UpstreamPeer(ipv4: 0x0a00_0001, port: 65_535))
        expect(
            UpstreamPeer(address: "2001:db8::1", port: 1),
            equals: UpstreamPeer(ipv6High: 0x2001_0db8_0000_0000, low: 1, port: 1))
    }
}
