import CloakroomCore
import NIOCore
import NIOEmbedded
import TestSupport
import Testing

@testable import CloakroomProxy

extension PerClientConnectionLimit {
    fileprivate func accepts(_ address: String, until closed: EventLoopFuture<Void>) -> Bool {
        if case .admitted = admit(address, until: closed) { true } else { false }
    }
}

@Suite("Connections per client address")
struct PerClientConnectionLimitTests {
    private let loop = EmbeddedEventLoop()

    @Test("A closed connection releases its slot")
    func places() {
        let limit = PerClientConnectionLimit(2, exempt: [])
        let first = loop.makePromise(of: Void.self)
        let second = loop.makePromise(of: Void.self)
        expect(limit.accepts("192.0.2.1", until: first.futureResult))
        expect(limit.accepts("192.0.2.1", until: second.futureResult))
        expect(!limit.accepts("192.0.2.1", until: loop.makeSucceededVoidFuture()))
        expect(limit.accepts("192.0.2.2", until: loop.makeSucceededVoidFuture()))
        first.succeed()
        let third = loop.makePromise(of: Void.self)
        expect(limit.accepts("192.0.2.1", until: third.futureResult))
        expect(!limit.accepts("192.0.2.1", until: loop.makeSucceededVoidFuture()))
        second.succeed()
        third.succeed()
        // No entry remains for disconnected clients.
        expect(limit.clients, equals: 0)
    }

    @Test("Zero means unlimited, and a peer without IP address is not counted")
    func unlimited() {
        let open = loop.makePromise(of: Void.self)
        let unlimited = PerClientConnectionLimit(0, exempt: [])
        let one = PerClientConnectionLimit(1, exempt: [CIDRBlock("192.0.2.0/24")].compactMap(\.self))
        for _ in 0..<3 {
            expect(unlimited.accepts("192.0.2.1", until: open.futureResult))
            expect(one.accepts("unknown", until: open.futureResult))
            expect(one.accepts("192.0.2.9", until: open.futureResult))
        }
        expect(unlimited.clients, equals: 0)
        expect(one.clients, equals: 0)
        open.succeed()
    }

    @Test("The connections of a client share one count of requests, also without a limit of connections")
    func load() throws {
        func load(_ admission: PerClientConnectionLimit.Admission) throws -> ClientLoad {
            guard case .admitted(let load?) = admission else { throw CancellationError() }
            return load
        }
        let limit = PerClientConnectionLimit(0, countsRequests: true, exempt: [])
        let closed = loop.makePromise(of: Void.self)
        let first = try load(limit.admit("2001:db8::1", until: closed.futureResult))
        let second = try load(limit.admit("2001:db8::2", until: closed.futureResult))
        let other = try load(limit.admit("192.0.2.1", until: closed.futureResult))
        expect(first === second)
        expect(first !== other)
        expect(first.beginRequest(limit: 2))
        expect(second.beginRequest(limit: 2))
        expect(!first.beginRequest(limit: 2))
        second.endRequest()
        expect(first.beginRequest(limit: 2))
        expect(first.count, equals: 2)
        expect(limit.clients, equals: 2)
        closed.succeed()
        expect(limit.clients, equals: 0)
    }

    @Test("Requests that outlive the connections of a client count for its next one")
    func draining() throws {
        let limit = PerClientConnectionLimit(0, countsRequests: true, exempt: [])
        func connect(until closed: EventLoopPromise<Void>) throws -> ClientLoad {
            guard case .admitted(let load?) = limit.admit("192.0.2.1", until: closed.futureResult) else {
                throw CancellationError()
            }
            return load
        }
        let closed = (0..<3).map { _ in loop.makePromise(of: Void.self) }
        let load = try connect(until: closed[0])
        for _ in 0..<2 {
            expect(load.beginRequest(limit: 2))
            load.beginDraining()
        }
        closed[0].succeed()
        expect(limit.clients, equals: 1)
        try expect(connect(until: closed[1]) === load)
        load.endRequest()
        load.endDraining()
        expect(load.count, equals: 1)
        closed[1].succeed()
        expect(limit.clients, equals: 1)
        load.endDraining()
        expect(limit.clients, equals: 0)
        // A client with a connection stays.
        let next = try connect(until: closed[2])
        expect(next !== load)
        expect(next.beginRequest(limit: 1))
        next.beginDraining()
        next.endDraining()
        expect(limit.clients, equals: 1)
        closed[2].succeed()
        expect(limit.clients, equals: 0)
    }

    @Test("Each event loop allows twice an even part of the requests of a client behind a trusted proxy")
    func forwarded() throws {
        let client = try require(ClientAddressKey("192.0.2.1"))
        let other = try require(ClientAddressKey("192.0.2.2"))
        for (loops, expected) in [(1, 8), (2, 8), (4, 4), (8, 2), (64, 1)] {
            var loads = ForwardedClientLoads()
            let allowed = (0..<20).filter { _ in loads.beginRequest(of: client, limit: 8, loopCount: loops) }.count
            expect(allowed, equals: expected)
            let isOtherAllowed = loads.beginRequest(of: other, limit: 8, loopCount: loops)
            expect(isOtherAllowed)
            loads.endRequest(of: client)
            let isAllowedAgain = loads.beginRequest(of: client, limit: 8, loopCount: loops)
            expect(isAllowedAgain)
            for _ in 0..<30 { loads.endRequest(of: client) }
            loads.endRequest(of: other)
            expect(loads.clients, equals: 0)
        }
    }
}
