import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("The in-memory marks")
struct MemoryMarksTests {
    private let now = Sample.start
    private let stated = WallTime(seconds: 5)

    @Test("are bounded for each scope: used logins do not evict what providers have reported")
    func bounded() {
        let marks = MemoryMarks(capacity: 100)
        let reported = MarkKey(.endedAtProvider, hash: 1)
        expect(marks.set(reported, to: stated, lifetime: .seconds(10), now: now))
        for hash in 0..<1_000 as Range<UInt64> {
            expect(
                marks.set(
                    MarkKey(.usedLogin, hash: hash), to: stated, lifetime: .seconds(600), now: now + .milliseconds(1)))
        }
        expect(marks.latest([reported], now: now), equals: stated)
        let kept = (0..<1_000 as Range<UInt64>).count {
            marks.latest([MarkKey(.usedLogin, hash: $0)], now: now) != nil
        }
        expect(kept, equals: 100)
        expect(marks.latest([MarkKey(.usedLogin, hash: 999)], now: now), equals: stated)
    }

    @Test("expire, and are deleted by a sweep")
    func expire() {
        let marks = MemoryMarks()
        let key = MarkKey(.logoutToken, hash: 1)
        expect(marks.set(key, to: stated, lifetime: .seconds(10), now: now))
        expect(!marks.set(key, to: stated, lifetime: .seconds(10), now: now + .milliseconds(9_999)))
        marks.sweep(now: now + .milliseconds(9_999))
        expect(marks.latest([key], now: now), equals: stated)
        marks.sweep(now: now + .seconds(10))
        // Swept: the mark does not exist at an earlier time either.
        expect(marks.latest([key], now: now), equals: nil)
        expect(marks.set(key, to: stated, lifetime: .seconds(10), now: now))
    }
}

@Suite("The memory store's index of sessions at providers")
struct ProviderSessionIndexTests {
    @Test("has no entry for a session that has ended or expired, nor under an earlier session at the provider")
    func noTraces() async throws {
        let start = Sample.start
        let store = MemorySessionStore(
            Sample.configuration, accountHashes: Sample.accountHashes, clock: { Sample.start })
        func indexed(_ sid: String) -> [SessionID] {
            let session = ProviderSession(issuer: Sample.issuer, id: sid)
            return store.providerSessions.sessions(of: Sample.accountHashes.hash(session))
        }
        let (ticket, one) = try await store.create(Sample.new(Sample.provenance(1, sid: "a")), now: start)
        let (_, two) = try await store.create(Sample.new(Sample.provenance(1, sid: "a")), now: start)
        _ = try await store.create(Sample.new(1), now: start)
        expect(Set(indexed("a")), equals: [one.id, two.id])
        let lease = try await require(store.lease(one.key, for: .seconds(30), now: start).lease)
        func save(_ sid: String?) async throws -> SaveResult {
            let update = SessionUpdate(provenance: Sample.provenance(1, sid: sid))
            return try await store.save(update, ticket: ticket, over: one, under: lease, now: start)
        }
        try await expect(save("b").session != nil)
        expect(indexed("a"), equals: [two.id])
        expect(indexed("b"), equals: [one.id])
        // Rejected, because the version has changed.
        try await expect(save("c").isChanged)
        expect(empty: indexed("c"))
        expect(indexed("a"), equals: [two.id])
        _ = try await store.end(ticket, reason: .signedOut, now: start)
        expect(empty: indexed("b"))
        store.sweep(now: start + .seconds(900))
        expect(empty: indexed("a"))
        expect(store.count, equals: 0)
    }
}
