import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

/// A server that replaces another one and lacks writes hangs while they are repeated.
@Suite("Writes that are repeated at a server that hangs", .serialized, .timeLimit(.minutes(3)))
struct SlowReassertionTests {
    /// The slots of the second server.
    private static let slots = 5_461..<10_923

    /// Runs a test with a cluster of which the first two servers lack writes, and the first one hangs.
    /// - Parameter hasRecord: Whether the first server lacks a record, and not the end of a session.
    private func withHangingServer(
        hasRecord: Bool = false,
        _ body: (WriteJournal, ScriptedCluster, RecordingChangeDelegate, RecordedLog) async throws -> Void
    ) async throws {
        let (journal, keys, log) = (WriteJournal(), ValkeyKeys(prefix: "p"), RecordedLog())
        let ids = [try keys.id(in: 0..<5_461), try keys.id(in: Self.slots)]
        let reassertion = WriteReassertion(
            journal: journal, keys: keys, log: DurabilityLog(log.logger, SessionStoreCallbacks()))
        let cluster = try await ScriptedCluster(timeout: .seconds(30), failover: reassertion)
        let changes = RecordingChangeDelegate()
        let repeating = Task { await reassertion.repeatUntilAccepted(over: cluster.client, changes) }
        try await stopping {
            repeating.cancel()
            // Ends the connection to the server that hangs.
            await cluster.stop()
            await repeating.value
        } after: {
            try await cluster.isUp()
            if hasRecord {
                journal.saved(JournaledRecord(.sample(ids[0].value), lifetime: .seconds(900), fields: []))
            } else {
                journal.ended(ids[0], reason: .revoked)
            }
            journal.ended(ids[1], reason: .revoked)
            cluster.nodes[0].setHanging(true)
            cluster.nodes[1].reply(to: "EVALSHA", "-NOREPLICAS x", "-NOREPLICAS x", "-NOREPLICAS x")
            journal.didRepeat(
                [HashSlot.all], journal.willRepeat([HashSlot.all]),
                unwritten: Set(ids.map { HashSlot.slot(of: keys.session($0)) }))
            try await body(journal, cluster, changes, log)
        }
    }

    @Test("Rule 24: a server that hangs delays no repetition at another one, and gets one at a time")
    func hangingServer() async throws {
        try await withHangingServer { journal, cluster, changes, log in
            try await eventually("the other server has the end", within: .seconds(20)) {
                !journal.unrepeated.contains { Self.slots.overlaps($0) }
            }
            expect(cluster.nodes[1].count(of: "EVALSHA"), equals: 4)
            try await Task.sleep(for: .seconds(1))
            expect(journal.unrepeated.count, equals: 1)
            expect(cluster.nodes[0].count(of: "EVALSHA"), equals: 1)
            expect(cluster.nodes[1].count(of: "EVALSHA"), equals: 4)
            // No record is missing.
            expect(changes.count(.lacksWrites), equals: 0)
            cluster.nodes[0].setHanging(false)
            await cluster.nodes[0].disconnect()
            try await eventually("the first server has the end") { journal.unrepeated.isEmpty }
            let message = "no writes are left to repeat in the session store"
            try await eventually("the end is logged") { !log.lines("message", message).isEmpty }
        }
    }

    @Test("Rule 75: missing records are reported again while a repetition lasts, until the server has them")
    func longRepetition() async throws {
        try await withHangingServer(hasRecord: true) { journal, cluster, changes, _ in
            let first = try await changes.time(of: .lacksWrites)
            let third = try await changes.time(of: .lacksWrites, count: 3)
            // During the first repetition.
            #expect(third - first < PostOutageGracePeriod.length)
            expect(cluster.nodes[0].count(of: "EVALSHA"), equals: 1)
            cluster.nodes[0].setHanging(false)
            await cluster.nodes[0].disconnect()
            try await eventually("the server has the record") { journal.unrepeated.isEmpty }
            try await eventually("the reports end") {
                let count = changes.count(.lacksWrites)
                try await Task.sleep(for: .milliseconds(1_500))
                return changes.count(.lacksWrites) == count
            }
            expect(empty: journal.unrepeated)
        }
    }
}
