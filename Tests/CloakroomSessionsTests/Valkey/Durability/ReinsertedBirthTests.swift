import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("The birth of a session that another gateway has saved", .timeLimit(.minutes(3)))
struct ReinsertedBirthTests {
    @Test("A record that was lost has its birth again, also if only the gateway that refreshed it inserts it again")
    func refreshedElsewhere() async throws {
        try await withReplicas { a, b, server in
            let stores = [a, b].map { replica in
                SealedSessionStore(replica.records, configuration: Sample.configuration, secrets: Sample.secrets)
            }
            for store in stores { store.connectionChanged(isUp: true, partitions: HashSlot.count) }
            var new = Sample.new(Sample.provenance())
            new.user = UserProfile(json: new.user.json, account: new.user.account, name: Sample.account(3))
            let (ticket, session) = try await stores[0].create(new, now: Sample.start)
            let birth = try await require(b.records.read(session.id).record).birth
            expect(birth.account != nil && birth.name != nil && birth.provider != nil)

            // The second gateway refreshes the tokens, and then the user.
            let lease = try await require(
                stores[1].lease(session.key, for: .seconds(30), now: Sample.start).lease)
            let loaded = try await require(stores[1].reload(ticket, now: Sample.start).session)
            let saved = try await stores[1].save(
                SessionUpdate(tokens: Sample.tokens(5)), ticket: ticket, over: loaded, under: lease, now: Sample.start)
            let refreshed = try require(saved.session)
            for order in [[b, a], [a, b]] {
                try await server.ask("FLUSHALL")
                for gateway in order { try await WriteReassertionTests().reassert(gateway.records, on: server) }
                let again = try await require(a.records.read(session.id).record)
                expect(again.version, equals: 2)
                expect(again.birth, equals: birth)
            }
            let last = try await stores[1].save(
                SessionUpdate(userJSON: Array("{}".utf8)), ticket: ticket, over: refreshed, under: lease,
                now: Sample.start)
            expect(last.session?.version, equals: 3)
            try await server.ask("FLUSHALL")
            try await WriteReassertionTests().reassert(b.records, on: server)
            let again = try await require(a.records.read(session.id).record)
            expect(again.version, equals: 3)
            expect(again.birth, equals: birth)
        }
    }

    @Test("The times of a birth are restored from their bytes, and other bytes have none")
    func bytes() {
        let times: [Int64?] = [nil, 0, 1, -1, 1_700_000_000_000_000, .min, .max]
        for account in times {
            for name in times {
                for provider in times {
                    let birth = RecordBirth(account: account, name: name, provider: provider)
                    expect(RecordBirth(bytes: birth.bytes), equals: birth)
                    #expect(birth.bytes.count <= 27)
                }
            }
        }
        expect(empty: RecordBirth().bytes)
        for bytes in [[], [0], [1], [1, 0, 0], [2, 1, 1, 1, 1, 1, 1, 1, 1], [0, 0, 0]] as [[UInt8]] {
            expect(RecordBirth(bytes: bytes), equals: RecordBirth())
        }
    }
}
