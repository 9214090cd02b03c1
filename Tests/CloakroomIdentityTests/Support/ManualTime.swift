import CloakroomCore
import Synchronization
import Testing

/// A clock that only the test advances, and sleeps that last until then.
final class ManualTime: Sendable {
    private struct PendingSleep {
        let end: WallTime
        let continuation: CheckedContinuation<Void, any Error>
    }

    private struct State {
        var now = Upstreams.now
        var setBack = Duration.zero
        var sleepers: [Int: PendingSleep] = [:]
        var nextSleeper = 0
    }

    private let state = Mutex(State())

    var now: WallTime { state.withLock { $0.now - $0.setBack } }
    var sessionTime: SessionTime { state.withLock { $0.now.sessionTime } }
    /// The clock of leases. Its times are later than the end of any session.
    var leaseTime: MonotonicTime { MonotonicTime(seconds: 4_000_000_000) + (sessionTime - Upstreams.now.sessionTime) }
    /// The number of pending sleeps.
    var sleeperCount: Int { state.withLock { $0.sleepers.count } }

    /// Sets the wall clock back.
    func setBack(by duration: Duration) { state.withLock { $0.setBack = duration } }

    /// Advances the clocks and resumes the sleeps that are due.
    func advance(by duration: Duration) {
        let woken = state.withLock { state in
            state.now = state.now + duration
            let woken = state.sleepers.filter { $0.value.end <= state.now }
            for id in woken.keys { state.sleepers[id] = nil }
            return woken.values.map(\.continuation)
        }
        for continuation in woken { continuation.resume() }
    }

    func sleep(for duration: Duration) async throws {
        let id = state.withLock { state in
            state.nextSleeper += 1
            return state.nextSleeper
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let isCancelled = state.withLock { state in
                    guard !Task.isCancelled else { return true }
                    state.sleepers[id] = PendingSleep(end: state.now + duration, continuation: continuation)
                    return false
                }
                if isCancelled { continuation.resume(throwing: CancellationError()) }
            }
        } onCancel: {
            state.withLock { $0.sleepers.removeValue(forKey: id) }?.continuation
                .resume(throwing: CancellationError())
        }
    }
}

/// Yields until the condition holds. Records an issue and continues if it does not hold within a limit that no passing
/// test comes near.
func until(
    within limit: Duration = .seconds(30), sourceLocation: SourceLocation = #_sourceLocation,
    _ condition: () async -> Bool
) async {
    let end = ContinuousClock.now + limit
    while await !condition() {
        guard ContinuousClock.now < end else {
            Issue.record("the awaited condition did not become true", sourceLocation: sourceLocation)
            return
        }
        await Task.yield()
    }
}
