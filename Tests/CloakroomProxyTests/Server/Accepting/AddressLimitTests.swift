import CloakroomCore
import NIOCore
import NIOEmbedded
import Testing

@testable import CloakroomProxy

@Suite("Connections by address")
struct AddressLimitTests {
    private let loop = EmbeddedEventLoop()

    @Test("A place is free again once its connection is closed")
    func places() {
        let limit = AddressLimit(2, exempt: [])
        let first = loop.makePromise(of: Void.self)
        let second = loop.makePromise(of: Void.self)
        #expect(limit.enter("192.0.2.1", until: first.futureResult))
        #expect(limit.enter("192.0.2.1", until: second.futureResult))
        #expect(!limit.enter("192.0.2.1", until: loop.makeSucceededVoidFuture()))
        #expect(limit.enter("192.0.2.2", until: loop.makeSucceededVoidFuture()))
        first.succeed()
        let third = loop.makePromise(of: Void.self)
        #expect(limit.enter("192.0.2.1", until: third.futureResult))
        #expect(!limit.enter("192.0.2.1", until: loop.makeSucceededVoidFuture()))
        second.succeed()
        third.succeed()
        // Nothing is kept of clients that have gone.
        #expect(limit.clients == 0)
    }

    @Test("Zero is unlimited, and what is no IP address is not counted")
    func unlimited() {
        let open = loop.makePromise(of: Void.self)
        let unlimited = AddressLimit(0, exempt: [])
        let one = AddressLimit(1, exempt: [AddressRange("192.0.2.0/24")].compactMap(\.self))
        for _ in 0..<3 {
            #expect(unlimited.enter("192.0.2.1", until: open.futureResult))
            #expect(one.enter("unknown", until: open.futureResult))
            #expect(one.enter("192.0.2.9", until: open.futureResult))
        }
        #expect(unlimited.clients == 0)
        #expect(one.clients == 0)
        open.succeed()
    }

    @Test("One client is an IPv4 address, mapped or not, or a /64 of IPv6")
    func blocks() {
        #expect(AddressBlock("192.0.2.1") != AddressBlock("192.0.2.2"))
        #expect(AddressBlock("192.0.2.1") == AddressBlock("::ffff:192.0.2.1"))
        #expect(AddressBlock("2001:db8:0:1::1") == AddressBlock("2001:db8:0:1:ffff::2"))
        #expect(AddressBlock("2001:db8:0:1::1") != AddressBlock("2001:db8:0:2::1"))
        #expect(AddressBlock("::1") != AddressBlock("0.0.0.0"))
        #expect(AddressBlock("somewhere") == nil)
    }
}
