import CloakroomCore
import TestSupport
import Testing

@Suite("A call with a time limit", .timeLimit(.minutes(1)))
struct TimeLimitTests {
    private struct Interrupted: Error {}

    @Test("A call that ends in time returns its result, or throws its error")
    func inTime() async throws {
        let result = try await TimeLimit.run(.seconds(60)) { 7 }
        expect(result, equals: 7)
        await #expect(throws: Interrupted.self) { try await TimeLimit.run(.seconds(60)) { throw Interrupted() } }
    }

    @Test("A call that does not end is cancelled, and its own error is thrown")
    func late() async {
        await #expect(throws: Interrupted.self) {
            try await TimeLimit.run(.milliseconds(1)) {
                do {
                    try await Task.sleep(for: .seconds(3_600))
                } catch {
                    throw Interrupted()
                }
            }
        }
    }

    @Test("A call that succeeds although it was cancelled returns its result")
    func completed() async throws {
        let result = try await TimeLimit.run(.milliseconds(1)) {
            try? await Task.sleep(for: .seconds(3_600))
            return 7
        }
        expect(result, equals: 7)
    }

    @Test("Cancellation ends the wait")
    func cancelled() async {
        let waiting = Task { try await TimeLimit.run(.seconds(3_600)) { try await Task.sleep(for: .seconds(3_600)) } }
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
    }
}
