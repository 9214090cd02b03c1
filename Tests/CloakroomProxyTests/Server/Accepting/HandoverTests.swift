import CloakroomProxy
import Synchronization
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Handover between two gateways", .serialized)
struct HandoverTests {
    private static let setup = GatewaySetup.serving.configuration { $0.eventLoops = 2 }

    /// Runs two gateways on one port, the older one first.
    private static func both(_ body: (_ old: RunningGateway, _ new: RunningGateway) async throws -> Void) async throws {
        try await setup.run { old in
            let port = old.port
            let second = setup.with(\.sharesListeners, true).configuration { configuration in
                configuration.eventLoops = 2
                configuration.listeners[0].address.port = port
            }
            try await second.run { new in
                expect(new.port, equals: port)
                try await body(old, new)
            }
        }
    }

    /// One connection and one request, without a retry.
    private static func ask(_ gateway: RunningGateway) async throws {
        let client = try await gateway.client()
        try await expect(client.exchange(Ask.get("/public/a", "Connection: close")).text, equals: "ok")
        try? await client.close()
    }

    private final class Progress: Sendable {
        let isOver = Atomic(false)
        let responded = Atomic(0)
    }

    /// Sends requests continuously before, during and after the shutdown of one gateway.
    private static func load(_ gateway: RunningGateway, stopping: RunningGateway) async throws {
        let progress = Progress()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    while !progress.isOver.load(ordering: .relaxed) {
                        try await Self.ask(gateway)
                        progress.responded.wrappingAdd(1, ordering: .relaxed)
                    }
                }
            }
            group.addTask {
                defer { progress.isOver.store(true, ordering: .relaxed) }
                try await eventually("some responses") { progress.responded.load(ordering: .relaxed) > 100 }
                await stopping.beginDrain()
                try await stopping.stopped()
                let before = progress.responded.load(ordering: .relaxed)
                try await eventually("more responses") { progress.responded.load(ordering: .relaxed) > before + 100 }
            }
            try await group.waitForAll()
        }
    }

    @Test(
        "Rule 47: without the takeover option a second gateway does not start on an address in use, and the first one is unaffected"
    )
    func notAsked() async throws {
        try await Self.setup.run { first in
            let port = first.port
            let second = Self.setup.configuration { $0.listeners[0].address.port = port }
            let error = await #expect(throws: ListenerError.self) { try await second.run { _ in } }
            expect(error?.finding?.key, equals: ["listeners", "0", "address"])
            expect(error?.description.contains("address already in use"), equals: true)
            expect(error?.description.contains("--take-over"), equals: true)
            for _ in 0..<50 { try await Self.ask(first) }
            expect(first.upstream.requests.count, equals: 50)
        }
    }

    @Test("An address after a handover needs the takeover option again")
    func afterTakingOver() async throws {
        try await Self.both { _, new in
            let port = new.port
            let third = Self.setup.configuration { $0.listeners[0].address.port = port }
            await #expect(throws: ListenerError.self) { try await third.run { _ in } }
            try await third.with(\.sharesListeners, true).run { expect($0.port, equals: port) }
        }
    }

    @Test("With the takeover option and no running gateway the start is an ordinary one")
    func nothingToTakeOver() async throws {
        try await Self.setup.with(\.sharesListeners, true).run { try await Self.ask($0) }
    }

    @Test("Addresses in use are found before the start, that of the admin listener also during a takeover")
    func check() async throws {
        try await Self.setup.run { first in
            let address = HostAndPort(host: "127.0.0.1", port: first.port)
            var configuration = first.configuration
            configuration.listeners[0].address = address
            configuration.admin = AdminConfiguration(address: address)
            let all = ListenerCheck.findings(in: configuration, sharesListeners: false)
            expect(all.map(\.key), equals: [["listeners", "0", "address"], ["admin", "address"]])
            expect(all.allSatisfy { $0.message.contains("127.0.0.1:\(first.port)") && !$0.isWarning })
            let shared = ListenerCheck.findings(in: configuration, sharesListeners: true)
            expect(shared.map(\.key), equals: [["admin", "address"]])
            expect(shared.allSatisfy { $0.suggestion.contains("needs its own admin address") })
            configuration.listeners[0].address.port = 0
            configuration.admin = nil
            expect(ListenerCheck.findings(in: configuration, sharesListeners: false), equals: [])
            try await Self.ask(first)
        }
    }

    @Test("Both gateways accept connections while both run")
    func sharing() async throws {
        try await Self.both { old, new in
            try await eventually("an exchange on each gateway") {
                try await Self.ask(old)
                return !old.upstream.requests.isEmpty && !new.upstream.requests.isEmpty
            }
        }
    }

    @Test("The older or the newer one stops, and no new connection is lost", arguments: [true, false])
    func stops(isOlder: Bool) async throws {
        try await Self.both { old, new in
            let (stopping, other) = isOlder ? (old, new) : (new, old)
            try await Self.load(other, stopping: stopping)
            let count = other.upstream.requests.count
            try await Self.ask(other)
            expect(other.upstream.requests.count, equals: count + 1)
        }
    }

    @Test("A third gateway takes the address from the second in the same way")
    func twice() async throws {
        try await Self.both { old, new in
            try await Self.load(new, stopping: old)
            let port = new.port
            let third = Self.setup.with(\.sharesListeners, true).configuration { configuration in
                configuration.eventLoops = 2
                configuration.listeners[0].address.port = port
            }
            try await third.run { newest in
                try await Self.load(newest, stopping: new)
                try await Self.ask(newest)
            }
        }
    }
}
