import CloakroomCore
import NIOCore
import NIOEmbedded
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("Connections per client address")
struct PerClientConnectionLimitTests {
    private let loop = EmbeddedEventLoop()

    @Test("A closed connection releases its slot")
    func places() {
        let limit = PerClientConnectionLimit(2, exempt: [])
        let first = loop.makePromise(of: Void.self)
        let second = loop.makePromise(of: Void.self)
        #expect(limit.acquire("192.0.2.1", until: first.futureResult))
        #expect(limit.acquire("192.0.2.1", until: second.futureResult))
        #expect(!limit.acquire("192.0.2.1", until: loop.makeSucceededVoidFuture()))
        #expect(limit.acquire("192.0.2.2", until: loop.makeSucceededVoidFuture()))
        first.succeed()
        let third = loop.makePromise(of: Void.self)
        #expect(limit.acquire("192.0.2.1", until: third.futureResult))
        #expect(!limit.acquire("192.0.2.1", until: loop.makeSucceededVoidFuture()))
        second.succeed()
        third.succeed()
        // No entry remains for disconnected clients.
        #expect(limit.clients == 0)
    }

    @Test("Zero means unlimited, and a peer without IP address is not counted")
    func unlimited() {
        let open = loop.makePromise(of: Void.self)
        let unlimited = PerClientConnectionLimit(0, exempt: [])
        let one = PerClientConnectionLimit(1, exempt: [CIDRBlock("192.0.2.0/24")].compactMap(\.self))
        for _ in 0..<3 {
            #expect(unlimited.acquire("192.0.2.1", until: open.futureResult))
            #expect(one.acquire("unknown", until: open.futureResult))
            #expect(one.acquire("192.0.2.9", until: open.futureResult))
        }
        #expect(unlimited.clients == 0)
        #expect(one.clients == 0)
        open.succeed()
    }

    @Test("A client is identified by its IPv4 address, mapped or not, or by its IPv6 /64 prefix")
    func blocks() {
        #expect(ClientAddressKey("192.0.2.1") != ClientAddressKey("192.0.2.2"))
        #expect(ClientAddressKey("192.0.2.1") == ClientAddressKey("::ffff:192.0.2.1"))
        #expect(ClientAddressKey("2001:db8:0:1::1") == ClientAddressKey("2001:db8:0:1:ffff::2"))
        #expect(ClientAddressKey("2001:db8:0:1::1") != ClientAddressKey("2001:db8:0:2::1"))
        #expect(ClientAddressKey("::1") != ClientAddressKey("0.0.0.0"))
        #expect(ClientAddressKey("somewhere") == nil)
    }
}
