import CloakroomCore

/// The back-off after a refresh that failed temporarily: 1 s, doubling to 30 s.
///
/// The back-off protects the upstream. A failure of the store never costs more than the first second: a store protects
/// itself, and all of its sessions must continue as soon as it recovers.
struct RefreshBackoff: Sendable {
    /// The maximum back-off, and how long after a back-off the earlier failures still count.
    static let longest = Duration.seconds(30)

    /// The number of consecutive failed refreshes.
    private(set) var failures = 0
    /// The end of the back-off.
    private(set) var until = Timestamp(milliseconds: .min)
    /// The outcome for requests during the back-off, without the remaining time.
    private(set) var outcome = RefreshOutcome.unavailable(status: 503, retryAfter: 1)

    /// Records a failure.
    /// - Parameter spread: Any bits; they shorten the back-off by up to a quarter, so that sessions which failed
    ///   together do not retry together.
    mutating func note(_ failure: RefreshOutcome, spread: UInt64, now: Timestamp) {
        if case .storeUnavailable = failure {
            failures = 1
        } else {
            failures = isExpired(at: now) ? 1 : failures + 1
        }
        let full = min(Self.longest.wholeMilliseconds, 1_000 << Int64(min(failures - 1, 5)))
        until = now + .milliseconds(full - full / 4 * Int64(spread & 0xff) / 256)
        outcome = failure
    }

    /// The outcome for a request during the back-off; `nil` after its end.
    ///
    /// If the clock jumps back, the back-off ends: it is never longer than ``longest``.
    func result(at now: Timestamp) -> RefreshOutcome? {
        guard now < until, until - now <= Self.longest else { return nil }
        let seconds = Int(max(1, ((until - now).wholeMilliseconds + 999) / 1_000))
        return switch outcome {
        case .unavailable(let status, _): .unavailable(status: status, retryAfter: seconds)
        case .storeUnavailable: .storeUnavailable(retryAfter: seconds)
        case .active, .ended: outcome
        }
    }

    /// Whether the next failure counts as the first one again.
    func isExpired(at now: Timestamp) -> Bool {
        now >= until + Self.longest || until - now > Self.longest
    }
}
