import NIOCore
import NIOEmbedded
import TestSupport
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
        private(set) var examinations = 0
        var idle: (since: UInt64, load: ClientLoad?)? {
            examinations += 1
            return nil
        }
        var onExpiry: () -> Void = {}

        init(deadline: UInt64) { self.deadline = deadline }

        func deadlineExpired(now: UInt64) {
            expirations += 1
            onExpiry()
        }

        func drain() {}
        func closeNow() {}
    }

    private let channel = EmbeddedChannel()

    private func makeContext(time: LoopTime = .system) throws -> LoopContext {
        let context = LoopContext(
            eventLoop: channel.embeddedEventLoop, config: try GatewaySetup().makeConfig(), loopCount: 1, time: time)
        context.start()
        return context
    }

    private func tick() { channel.embeddedEventLoop.advanceTime(by: .milliseconds(100)) }

    @Test("On each tick the members whose deadline has passed are called, and no others")
    func deadlines() throws {
        let context = try makeContext()
        defer { context.stop() }
        let members = [0, UInt64.max, 1].map { Member(deadline: $0) }
        for member in members { context.add(member) }
        tick()
        expect(members.map(\.expirations), equals: [1, 0, 1])
        members[0].deadline = .max
        tick()
        expect(members.map(\.expirations), equals: [1, 0, 2])
    }

    @Test("A deadline passes when the stepped time reaches it, however many ticks there are before")
    func steppedTime() throws {
        let time = SteppedTime()
        let context = try makeContext(time: .stepped(time))
        defer { context.stop() }
        let member = Member(deadline: time.now + 30_000_000_000)
        context.add(member)
        time.advance(by: .milliseconds(29_999))
        for _ in 0..<3 { tick() }
        expect(member.expirations, equals: 0)
        time.advance(by: .milliseconds(1))
        tick()
        expect(member.expirations, equals: 1)
        expect(context.now, equals: member.deadline)
    }

    @Test("At the connection limit a tick examines 2,048 connections, and the next tick the ones after them")
    func examined() throws {
        let context = try makeContext()
        defer { context.stop() }
        let limit = ConnectionLimit(1)
        // The queue of a channel without a socket is unknown, so connections may wait.
        limit.observe(self.channel, channel) {}
        limit.accepted(channel)
        context.connectionLimit = limit
        let members = (0..<3_000).map { _ in Member(deadline: .max) }
        for member in members { context.add(member) }
        tick()
        expect(members.reduce(0) { $0 + $1.examinations }, equals: 2_048)
        tick()
        expect(members.reduce(0) { $0 + $1.examinations }, equals: 4_096)
        expect(members.allSatisfy { $0.examinations > 0 })
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
        expect(members.map(\.expirations), equals: [1, 1, 1, 1])
        expect(members.map(\.registryIndex), equals: [-1, -1, -1, -1])
        tick()
        expect(members.map(\.expirations), equals: [1, 1, 1, 1])
    }
}
