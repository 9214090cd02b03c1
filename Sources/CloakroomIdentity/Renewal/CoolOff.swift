import CloakroomCore

/// The rest that is given after a renewal that failed for the time being: 1 second, doubling to 30.
///
/// It spares the upstream. A store looks after itself, and all of its sessions are to go on once it is back, so that a
/// failure of the store never costs more than the first second.
struct RefreshBackoff: Sendable {
    /// The longest rest, and how long after one the failures before it still count.
    static let longest = Duration.seconds(30)

    /// How many renewals have failed in a row.
    private(set) var failures = 0
    /// Until when there is none.
    private(set) var until = Timestamp(milliseconds: .min)
    /// What a request is answered meanwhile, but for the time.
    private(set) var outcome = RefreshOutcome.unavailable(status: 503, retryAfter: 1)

    /// Notes a failure.
    /// - Parameter spread: Any bits: up to a quarter of the rest is taken off by them, so that sessions which failed
    ///   together do not come back together.
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

    /// The answer for a request that comes in it; `nil` once it is over.
    ///
    /// A clock that jumps back ends it: a rest is never longer than ``longest``.
    func result(at now: Timestamp) -> RefreshOutcome? {
        guard now < until, until - now <= Self.longest else { return nil }
        let seconds = Int(max(1, ((until - now).wholeMilliseconds + 999) / 1_000))
        return switch outcome {
        case .unavailable(let status, _): .unavailable(status: status, retryAfter: seconds)
        case .storeUnavailable: .storeUnavailable(retryAfter: seconds)
        case .active, .ended: outcome
        }
    }

    /// Whether the next failure is a first one again.
    func isExpired(at now: Timestamp) -> Bool {
        now >= until + Self.longest || until - now > Self.longest
    }
}
