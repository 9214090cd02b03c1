import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import Testing

@testable import CloakroomProxy

@Suite("The peer of a connection")
struct PeerTests {
    private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    @Test("An IPv4 address is written without brackets or quotes in all fields")
    func version4() {
        let peer = Peer(address: "192.0.2.7", isTLS: false, trusted: [], listener: 0)
        #expect(text(peer.forwardedForLine) == "X-Forwarded-For: 192.0.2.7\r\n")
        #expect(text(peer.forwardedProtoLine) == "X-Forwarded-Proto: http\r\n")
        #expect(text(peer.forwardedPrefix) == "Forwarded: for=192.0.2.7;proto=http")
        #expect(peer.scheme == .http)
    }

    @Test("An IPv6 address is bracketed and quoted in Forwarded only (RFC 7239 §6)")
    func version6() {
        let peer = Peer(address: "2001:db8::7", isTLS: true, trusted: [], listener: 0)
        #expect(text(peer.forwardedForLine) == "X-Forwarded-For: 2001:db8::7\r\n")
        #expect(text(peer.forwardedProtoLine) == "X-Forwarded-Proto: https\r\n")
        #expect(text(peer.forwardedPrefix) == "Forwarded: for=\"[2001:db8::7]\";proto=https")
        #expect(peer.scheme == .https)
    }

    @Test("Peers that are not listed are untrusted")
    func trust() throws {
        let trusted = [try #require(CIDRBlock("10.0.0.0/8")), try #require(CIDRBlock("::1"))]
        #expect(!Peer(address: "10.1.2.3", isTLS: false, trusted: [], listener: 0).isTrusted)
        #expect(Peer(address: "10.1.2.3", isTLS: false, trusted: trusted, listener: 0).isTrusted)
        #expect(Peer(address: "::1", isTLS: false, trusted: trusted, listener: 0).isTrusted)
        #expect(!Peer(address: "11.1.2.3", isTLS: false, trusted: trusted, listener: 0).isTrusted)
        #expect(!Peer(address: "unknown", isTLS: false, trusted: trusted, listener: 0).isTrusted)
    }
}
