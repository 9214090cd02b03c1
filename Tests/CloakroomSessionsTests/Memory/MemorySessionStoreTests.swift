import CloakroomCore
import Synchronization
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("The memory store")
struct MemorySessionStoreTests {
    private let counts = Counts()

    private final class Counts: Sendable {
        private let created = Mutex(0)
        private let ended = Mutex<[SessionEndReason: Int]>([:])

        func store(_ configuration: SessionConfiguration) -> MemorySessionStore {
            MemorySessionStore(
                configuration, accountHashes: Sample.accountHashes, clock: { Sample.start },
                events: SessionStoreCallbacks(
                    onCreated: { self.created.withLock { $0 += 1 } },
                    onEnded: { reason in self.ended.withLock { $0[reason, default: 0] += 1 } }))
        }

        var createdCount: Int { created.withLock { $0 } }
        var endedByReason: [SessionEndReason: Int] { ended.withLock { $0 } }
    }

    private let start = Sample.start

    @Test("identifies a session by SHA-256 of its ticket's bytes")
    func keyIsDigest() throws {
        let zeros = [UInt8](repeating: UInt8(ascii: "A"), count: SessionTicket.characterCount)
        let read = SessionTicket(cookieValue: zeros.span)
        let ticket = try require(read)
        // The output of `sha256sum` for 32 zero bytes.
        expect(
            SessionKey(ticket),
            equals: SessionKey(
                0x6668_7aad_f862_bd77, 0x6c8f_c18b_8e9f_8e20, 0x0897_1485_6ee2_33b3, 0x902a_591d_0d5f_2925))
    }

    @Test("never returns an unknown lookup result")
    func neverUnknown() async throws {
        let store = Counts().store(Sample.configuration)
        let (ticket, _) = try await store.create(Sample.new(), now: start)
        var generator = SystemRandomNumberGenerator()
        for lookup in [
            store.lookup(ticket, now: start, slides: true),
            store.lookup(SessionTicket(using: &generator), now: start, slides: true),
        ] {
            if case .notCached = lookup { Issue.record("a memory store holds every session locally") }
            expect(lookup.session != nil || lookup.reason != nil)
        }
    }

    @Test("deletes a bounded number of expired sessions per sweep, until none is left")
    func sweep() async throws {
        let store = counts.store(Sample.configuration)
        for number in 0..<1_000 {
            _ = try await store.create(Sample.new(number), now: start)
        }
        expect(store.sweep(now: start + .seconds(899)), equals: 0)
        let now = start + .seconds(900)
        var sweeps = 0
        while store.count > 0, sweeps < 20 {
            #expect(store.sweep(now: now, limit: 100) <= 100)
            sweeps += 1
        }
        expect(sweeps, equals: 10)
        expect(store.count, equals: 0)
        expect(counts.endedByReason, equals: [.expiredIdle: 1_000])
    }

    @Test("deletes a session at the end that a refresh has moved to an earlier time")
    func sweepFollowsRefresh() async throws {
        let store = Counts().store(Sample.configuration)
        let (ticket, session) = try await store.create(Sample.new(Sample.provenance(1)), now: start)
        let lease = try await require(store.lease(session.key, for: .seconds(30), now: start).lease)
        let update = SessionUpdate(tokens: Sample.tokens(2), endsBy: start.wallTime + .seconds(100))
        _ = try await store.save(update, ticket: ticket, over: session, under: lease, now: start)
        expect(store.sweep(now: start + .seconds(99)), equals: 0)
        expect(store.sweep(now: start + .seconds(100)), equals: 1)
        expect(store.count, equals: 0)
    }

    @Test("does not delete a session that was used meanwhile, and checks it again when it is due")
    func sweepSparesUsed() async throws {
        let store = counts.store(Sample.configuration)
        let (ticket, _) = try await store.create(Sample.new(), now: start)
        _ = store.lookup(ticket, now: start + .seconds(500), slides: true)
        expect(store.sweep(now: start + .seconds(1_399)), equals: 0)
        expect(store.sweep(now: start + .seconds(1_400)), equals: 1)
        expect(store.lookup(ticket, now: start + .seconds(1_400), slides: true).reason, equals: .expiredIdle)
        expect(counts.endedByReason, equals: [.expiredIdle: 1])
    }

    @Test("reports the creation and the end of each session once, whichever operation detects the end")
    func observes() async throws {
        let store = counts.store(Sample.configuration)
        var tickets: [SessionTicket] = []
        for number in 0..<4 {
            tickets.append(try await store.create(Sample.new(number), now: start).0)
        }
        _ = try await store.end(tickets[0], reason: .signedOut, now: start)
        _ = try await store.end(tickets[1], reason: .replaced, now: start)
        for seconds in stride(from: Int64(0), to: 3_600, by: 600) {
            _ = store.lookup(tickets[2], now: start + .seconds(seconds), slides: true)
        }
        let now = start + .seconds(3_600)
        for ticket in tickets + tickets { _ = store.lookup(ticket, now: now, slides: true) }
        store.sweep(now: now)
        expect(counts.createdCount, equals: 4)
        expect(counts.endedByReason, equals: [.signedOut: 1, .replaced: 1, .expiredAbsolute: 1, .expiredIdle: 1])
        expect(store.count, equals: 0)
    }

    @Test("keeps the end reasons of a bounded number of sessions")
    func tombstonesAreBounded() async throws {
        let store = Counts().store(Sample.configuration)
        var tickets: [SessionTicket] = []
        for _ in 0..<70_000 {
            let (ticket, _) = try await store.create(Sample.new(), now: start)
            _ = try await store.end(ticket, reason: .signedOut, now: start)
            tickets.append(ticket)
        }
        let revoked = tickets.count { store.lookup($0, now: start, slides: false).reason == .revoked }
        #expect(revoked <= 65_536)
        #expect(revoked > 60_000)
        let last = try require(tickets.last)
        expect(store.lookup(last, now: start, slides: false).reason, equals: .revoked)
        expect(store.count, equals: 0)
    }

    @Test("stays consistent under concurrent sign-ins, lookups, sign-outs and sweeps")
    func stress() async throws {
        var configuration = Sample.configuration
        configuration.maxSessions = 500
        let store = counts.store(configuration)
        await withTaskGroup(of: Void.self) { group in
            for worker in 0..<8 {
                group.addTask { await work(worker, on: store) }
            }
        }
        let live = counts.createdCount - counts.endedByReason.values.reduce(0, +)
        expect(store.count, equals: live)
        expect(store.sweep(now: start + .seconds(1_000_000)), equals: live)
        expect(store.count, equals: 0)
    }

    /// The operations of one of many concurrent clients, some of them on a full store.
    private func work(_ worker: Int, on store: MemorySessionStore) async {
        var mine: [SessionTicket] = []
        for step in 0..<2_000 {
            let now = start + .seconds(Int64(step))
            switch (step &* 31 &+ worker) % 5 {
            case 0, 1:
                let made = try? await store.create(Sample.new(worker), now: now)
                if let made { mine.append(made.0) }
            case 2:
                guard let ticket = mine.popLast() else { continue }
                let ended = try? await store.end(ticket, reason: .signedOut, now: now)
                expect(ended == nil || ended?.user.account == Sample.account(worker))
                expect(store.lookup(ticket, now: now, slides: true).session == nil)
            case 3:
                for ticket in mine.suffix(20) {
                    let session = store.lookup(ticket, now: now, slides: true).session
                    expect(session == nil || session?.user.account == Sample.account(worker))
                }
            default:
                store.sweep(now: now, limit: 50)
            }
            #expect(store.count <= 500)
        }
    }
}
