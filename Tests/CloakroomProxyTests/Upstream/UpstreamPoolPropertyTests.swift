import Testing

@testable import CloakroomProxy

@Suite("Pools of several event loops in any sequence of events")
struct UpstreamPoolPropertyTests {
    @Test("No request is lost, permits are conserved, the order is kept, and nothing that a waiter needs stays idle")
    func randomEvents() {
        var (served, failed, expired, rejected) = (0, 0, 0, 0)
        for seed in 1...100 as ClosedRange<UInt64> {
            var model = PoolModel(seed: seed)
            for _ in 0..<400 { model.step() }
            model.settle()
            model.close()
            served += model.served
            failed += model.failed
            expired += model.expired
            rejected += model.rejected
        }
        // Each kind of end is common enough to be tested.
        #expect(served > 2_000)
        #expect(failed > 100)
        #expect(expired > 100)
        #expect(rejected > 100)
    }
}
