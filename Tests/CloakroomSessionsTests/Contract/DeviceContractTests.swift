import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("Every session store, for sessions that are bound to a device", .timeLimit(.minutes(3)))
struct DeviceContractTests {
    private let start = Sample.start
    private static let binding = DeviceBinding(key: (0..<64).map { UInt8($0) }, boundAt: Sample.start.wallTime)

    /// Runs a test with a session that has got its key.
    private func bound(
        _ kind: SessionStoreCase, _ mode: DeviceConfiguration.Mode = .auto, isUsedByApps: Bool = false,
        _ test: (any SessionStore, SessionTicket, Session) async throws -> Void
    ) async throws {
        var configuration = Sample.configuration
        (configuration.device.mode, configuration.device.isUsedByApps) = (mode, isUsedByApps)
        try await kind.run(configuration) { store async throws in
            let (ticket, session) = try await store.create(Sample.new(), now: start)
            let lease = try await require(store.lease(session.key, for: .seconds(2), now: start).lease)
            let update = SessionUpdate(device: Self.binding)
            let result = try await store.save(update, ticket: ticket, over: session, under: lease, now: start)
            let saved = try require(result.session)
            await store.release(lease, of: session.key)
            try await test(store, ticket, saved)
        }
    }

    @Test("keeps the key with everything else, also through a refresh, and lists it", arguments: SessionStoreCase.all)
    func saves(kind: SessionStoreCase) async throws {
        try await bound(kind) { store, ticket, saved in
            expect(saved.device == Self.binding && saved.version == 2)
            let read = try await require(store.reload(ticket, now: start).session)
            expect(read.device == Self.binding && read.tokens == saved.tokens && read.client == Sample.client)
            expect(read.expiresAt, equals: saved.expiresAt)
            let lease = try await require(store.lease(saved.key, for: .seconds(2), now: start).lease)
            let tokens = SessionUpdate(tokens: Sample.tokens(1))
            let result = try await store.save(tokens, ticket: ticket, over: read, under: lease, now: start)
            expect(result.session?.device, equals: Self.binding)
            try await expect(store.reload(ticket, now: start).session?.device, equals: Self.binding)
            try await expect(store.sessions(of: Sample.account(), now: start).map(\.isBound), equals: [true])
        }
        try await kind.run(with: Sample.new()) { store, _, _ async throws in
            try await expect(store.sessions(of: Sample.account(), now: start).map(\.isBound), equals: [false])
        }
    }

    @Test(
        "Rule 114: a lookup is no use of it, whatever it asks for; only a request with a proof is",
        arguments: SessionStoreCase.all, [DeviceConfiguration.Mode.auto, .off])
    func slides(kind: SessionStoreCase, mode: DeviceConfiguration.Mode) async throws {
        // With `off`, proofs are checked because an app needs them.
        try await bound(kind, mode, isUsedByApps: mode == .off) { store, ticket, _ in
            for seconds in [Int64(200), 400, 600] {
                _ = try await store.lookup(ticket, at: start + .seconds(seconds))
                try await expect(store.load(ticket, now: start + .seconds(seconds)).session?.lastUsedAt, equals: start)
            }
            let session = try await require(store.lookup(ticket, at: start + .seconds(600)).session)
            store.recordUse(of: session, now: start + .seconds(600))
            expect(session.lastUsedAt, equals: start + .seconds(600))
            try await expect(store.lookup(ticket, at: start + .seconds(1_400)).session != nil)
            try await expect(store.lookup(ticket, at: start + .seconds(600) + kind.idle).reason, equals: .expiredIdle)
        }
    }

    @Test("With the mode `off` it needs no proof: its lookups are uses", arguments: SessionStoreCase.shared)
    func off(kind: SessionStoreCase) async throws {
        try await bound(kind, .off) { store, ticket, _ in
            let used = start + .seconds(600)
            let first = try await store.lookup(ticket, at: used).session
            expect(first?.lastUsedAt, equals: used)
            let second = try await store.lookup(ticket, at: start + .seconds(1_400)).session
            expect(second != nil)
        }
    }

    @Test("Of format 2 every truncation is rejected, and format 1 has no key")
    func format() throws {
        let parts = SessionParts(
            user: Sample.user(), tokens: Sample.tokens(), source: Sample.source, provenance: Sample.provenance(),
            device: Self.binding)
        let bytes = parts.bytes
        expect(SessionParts(bytes, .two), equals: parts)
        expect(SessionParts(bytes, .one) == nil && SessionParts(bytes + [0], .two) == nil)
        for count in bytes.indices { expect(SessionParts(Array(bytes.prefix(count)), .two), equals: nil, "\(count)") }
    }
}
