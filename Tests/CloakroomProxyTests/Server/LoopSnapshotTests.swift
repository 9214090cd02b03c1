import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("How long a configuration is used")
struct LoopSnapshotTests {
    private func snapshot() throws -> LoopSnapshot { LoopSnapshot(try GatewaySetup().makeConfig()) }

    @Test("An exchange uses the snapshot that was in effect when it began, and ends once")
    func reference() throws {
        let old = try snapshot()
        let new = try snapshot()
        var reference = SnapshotReference(old)
        reference.retain(old)
        expect(old.activeCount, equals: 1)
        expect(reference.snapshot === old)
        let ended = reference.end()
        let again = reference.end()
        expect(ended === old)
        expect(again == nil)
        ended?.release()
        reference.adopt(new)
        expect(reference.snapshot === new)
        expect(old.activeCount, equals: 0)
        expect(new.activeCount, equals: 0)
    }

    @Test("The next exchange uses the snapshot in effect by then")
    func nextExchange() throws {
        let new = try snapshot()
        var reference = SnapshotReference(try snapshot())
        reference.retain(new)
        expect(reference.snapshot === new)
        expect(new.activeCount, equals: 1)
    }

    @Test("A snapshot is retired when its last exchange has ended, at once without any")
    func retirement() throws {
        let used = try snapshot()
        used.retain()
        var isRetired = false
        used.retire(to: try snapshot()) { isRetired = true }
        expect(!isRetired)
        used.release()
        expect(isRetired)
        var isUnusedRetired = false
        try snapshot().retire(to: try snapshot()) { isUnusedRetired = true }
        expect(isUnusedRetired)
    }
}
