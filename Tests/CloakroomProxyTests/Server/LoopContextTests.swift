import NIOCore
import NIOEmbedded
import Testing

@testable import CloakroomProxy

@Suite("The registry of an event loop")
struct LoopContextTests {
    /// A member that records what is called.
    private final class Member: LoopRegistered {
        var deadline: UInt64
        var registryIndex = -1
        var isDownstream: Bool { false }
        private(set) var expirations = 0
        var onExpiry: () -> Void = {}

        init(deadline: UInt64) { self.deadline = deadline }

        func deadlineExpired(now: UInt64) {
            expirations += 1
            onExpiry()
        }

        func drain() {}
        func closeNow() {}
    }

    /// A member that compares deadlines itself.
    private final class Owner: LoopRegistered {
        var deadline: UInt64 { 0 }
        var registryIndex = -1
        var isDownstream: Bool { false }
        private(set) var sweeps = 0
        private(set) var expirations = 0

        func sweep(now: UInt64) { sweeps += 1 }
        func deadlineExpired(now: UInt64) { expirations += 1 }
        func drain() {}
        func closeNow() {}
    }

    private let channel = EmbeddedChannel()

    private func makeContext() throws -> LoopContext {
        let context = LoopContext(
            eventLoop: channel.embeddedEventLoop, config: try GatewaySetup().makeConfig(), loopCount: 1)
        context.start()
        return context
    }

    private func tick() { channel.embeddedEventLoop.advanceTime(by: .milliseconds(200)) }

    @Test("On each tick the members whose deadline has passed are called, and no others")
    func deadlines() throws {
        let context = try makeContext()
        defer { context.stop() }
        let members = [0, UInt64.max, 1].map { Member(deadline: $0) }
        for member in members { context.add(member) }
        tick()
        #expect(members.map(\.expirations) == [1, 0, 1])
        members[0].deadline = .max
        tick()
        #expect(members.map(\.expirations) == [1, 0, 2])
    }

    @Test("A member that unregisters when it is called leaves the calls of the others complete")
    func unregistering() throws {
        let context = try makeContext()
        defer { context.stop() }
        let members = (0..<4).map { _ in Member(deadline: 0) }
        for member in members {
            context.add(member)
            member.onExpiry = { [unowned member] in context.remove(member) }
        }
        tick()
        #expect(members.map(\.expirations) == [1, 1, 1, 1])
        #expect(members.map(\.registryIndex) == [-1, -1, -1, -1])
        tick()
        #expect(members.map(\.expirations) == [1, 1, 1, 1])
    }

    @Test("A member with deadlines of its own is called on each tick, and compares them itself")
    func ownSweep() throws {
        let context = try makeContext()
        defer { context.stop() }
        let owner = Owner()
        context.add(owner)
        tick()
        tick()
        #expect(owner.sweeps == 2)
        #expect(owner.expirations == 0)
    }

    @Test("An idle exchange serves another connection's requests after it has adopted its peer")
    func adoption() throws {
        let context = try makeContext()
        defer { context.stop() }
        let downstream = HTTP1DownstreamHandler(
            DownstreamConnectionInfo(channel: channel, context: context, isTLS: false))
        let exchange = Exchange(
            context: context, peer: Peer(address: "192.0.2.1", isTLS: false, trusted: []), downstream: downstream)
        let other = Peer(address: "192.0.2.2", isTLS: true, trusted: [])
        exchange.adopt(peer: other)
        #expect(exchange.peer === other)
        exchange.downstreamClosed()
    }
}
