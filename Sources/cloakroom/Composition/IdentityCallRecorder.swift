import CloakroomCore
import CloakroomTelemetry
import Synchronization

/// Records identity calls as metrics, and their failures as log lines and for the status page.
final class IdentityCallRecorder: IdentityCallObserver {
    /// The maximum number of failures that are kept.
    static let maxFailures = 20
    private static let mostDurations = 1_024

    private let metrics: GatewayMetrics
    private let audit: AuditLog
    private let now: @Sendable () -> WallTime
    /// The histograms by what attempts have in common, at most ``mostDurations``: their durations are 0 here.
    private let durations = Mutex<[IdentityCallAttempt: HistogramHandle]>([:])
    private let recent = Mutex<[IdentityCallFailure]>([])

    init(metrics: GatewayMetrics, audit: AuditLog, now: @escaping @Sendable () -> WallTime = { .now }) {
        self.metrics = metrics
        self.audit = audit
        self.now = now
    }

    func identityCallAttempted(_ attempt: IdentityCallAttempt) {
        var kind = attempt
        kind.nanoseconds = 0
        let duration = durations.withLock { durations in
            if let found = durations[kind] { return found }
            let made = metrics.identityCallDuration(kind)
            if durations.count >= Self.mostDurations { durations.removeAll() }
            durations[kind] = made
            return made
        }
        duration.record(nanoseconds: attempt.nanoseconds)
    }

    func identityCallFailed(_ failure: IdentityCallFailure) {
        var failure = failure
        failure.time = now()
        audit.identityCallFailed(failure, now: failure.time)
        recent.withLock { [failure] recent in
            recent.insert(failure, at: 0)
            if recent.count > Self.maxFailures { recent.removeLast() }
        }
    }

    /// The last failures, the newest first.
    var failures: [IdentityCallFailure] { recent.withLock { $0 } }
}
