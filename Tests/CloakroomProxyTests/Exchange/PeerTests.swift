import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("The peer of a connection")
struct PeerTests {
    private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    @Test(
        "An IPv6 address is bracketed and quoted in Forwarded only, an IPv4 address in no field (RFC 7239 §6)",
        arguments: [("192.0.2.7", "192.0.2.7", "http"), ("2001:db8::7", "\"[2001:db8::7]\"", "https")])
    func fields(address: String, forwarded: String, scheme: String) {
        let peer = Peer(address: address, isTLS: scheme == "https", trusted: [], listener: 0)
        expect(text(peer.forwardedForLine), equals: "X-Forwarded-For: \(address)\r\n")
        expect(text(peer.forwardedProtoLine), equals: "X-Forwarded-Proto: \(scheme)\r\n")
        expect(text(peer.forwardedPrefix), equals: "Forwarded: for=\(forwarded);proto=\(scheme)")
        expect(peer.scheme, equals: (scheme == "https" ? .https : .http))
    }

    @Test("Peers that are not listed are untrusted")
    func trust() throws {
        let trusted = [try require(CIDRBlock("10.0.0.0/8")), try require(CIDRBlock("::1"))]
        expect(!Peer(address: "10.1.2.3", isTLS: false, trusted: [], listener: 0).isTrusted)
        expect(Peer(address: "10.1.2.3", isTLS: false, trusted: trusted, listener: 0).isTrusted)
        expect(Peer(address: "::1", isTLS: false, trusted: trusted, listener: 0).isTrusted)
        expect(!Peer(address: "11.1.2.3", isTLS: false, trusted: trusted, listener: 0).isTrusted)
        expect(!Peer(address: "unknown", isTLS: false, trusted: trusted, listener: 0).isTrusted)
    }
}
