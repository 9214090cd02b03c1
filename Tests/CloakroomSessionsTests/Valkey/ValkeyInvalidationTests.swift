import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("Changes by other replicas", .serialized, .timeLimit(.minutes(3)))
struct ValkeyInvalidationTests {
    private static let start = SessionRecord.start

    /// Each of these changes a record through A, which gets no notification, and clears the server's tracking of A's
    /// read.
    @Test(
        "A replica that has changed a record still gets notifications of it",
        arguments: ["insert", "replace", "touch", "old touch", "lease"])
    func ownChanges(_ change: String) async throws {
        try await withReplicas { a, b, _ in
            let record = SessionRecord.sample()
            _ = try await a.records.insert(record)
            if change != "insert" { _ = try await a.records.read(record.id) }
            switch change {
            case "replace": _ = try await a.records.replace(.sample(version: 2), fence: nil, now: Self.start)
            case "touch", "old touch":
                let used = change == "touch" ? Self.start + .seconds(1) : Self.start
                try await a.records.touch([
                    RecordTouch(id: record.id, lastUsedAt: used, keepUntil: used + .seconds(900))
                ])
            case "lease": _ = try await a.records.lease(record.id, for: .seconds(9), now: Self.start)
            default: break
            }
            expect(a.changes.count(.changed(record.id)), equals: 0)
            _ = try await b.records.remove(record.id, reason: .revoked, condition: nil, now: Self.start)
            try await a.changes.time(of: .changed(record.id))
            try await expect(a.records.read(record.id), equals: .ended(.revoked))
        }
    }

    @Test("Records that the server expires are reported")
    func forgetting() async throws {
        try await withReplicas { a, b, server in
            let record = SessionRecord.sample()
            // The server reports what was read before it expired: on a busy machine that takes longer.
            for milliseconds in ["20", "200", "2000", "20000"] {
                _ = try await a.records.insert(record)
                try await server.ask("PEXPIRE", .text(a.records.keys.session(record.id)), .text(milliseconds))
                if try await b.records.read(record.id) == .record(record) { break }
            }
            try await b.changes.time(of: .changed(record.id))
            try await expect(b.records.read(record.id), equals: .none)
        }
    }

    @Test("A flushed database is reported as such")
    func flush() async throws {
        try await withReplicas { a, _, server in
            _ = try await a.records.insert(.sample())
            try await server.ask("FLUSHALL")
            try await a.changes.time(of: .allChanged)
            try await expect(a.records.read(SessionID(1)), equals: .none)
        }
    }
}
