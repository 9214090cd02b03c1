import CloakroomCore
import Synchronization

/// Whether a target can be reached, for operators. ``UpstreamTargets`` changes it together with ``TargetBalancer``, which
/// decides on the target of a connection. The last outcome of a connection counts, of a request or an identity call.
final class CircuitStatus: Sendable {
    /// A connection that could not be made. The error is put into words only when somebody asks.
    private struct Failure {
        let time: Timestamp
        let kind: UpstreamFailure.Kind
        let error: any Error
    }

    /// The moment until which it is left alone; 0 while it can be reached.
    private let openUntil = Atomic<UInt64>(0)
    private let failure = Mutex<Failure?>(nil)

    /// A connection to the target stands.
    func succeeded() {
        openUntil.store(0, ordering: .relaxed)
    }

    /// The target could not be reached.
    /// - Parameters:
    ///   - time: When, by the wall clock.
    ///   - backOffEnd: Until when it is skipped, in nanoseconds of a monotonic clock.
    func failed(_ kind: UpstreamFailure.Kind, _ error: any Error, at time: Timestamp, backOffEnd: UInt64) {
        failure.withLock { $0 = Failure(time: time, kind: kind, error: error) }
        openUntil.store(max(backOffEnd, 1), ordering: .relaxed)
    }

    /// Whether connections are made to it. A back-off ends by itself, so this depends on the moment at which it is asked.
    /// - Parameter now: Nanoseconds of the same clock.
    func state(now: UInt64) -> CircuitState {
        switch openUntil.load(ordering: .relaxed) {
        case 0: .closed
        case let end where now < end: .open
        default: .halfOpen
        }
    }

    /// The last connection that could not be made; `nil` if all could.
    var lastFailure: UpstreamStatus.Failure? {
        failure.withLock { $0 }.map {
            UpstreamStatus.Failure(time: $0.time, reason: ConnectFailureReason.text($0.kind, $0.error))
        }
    }
}
