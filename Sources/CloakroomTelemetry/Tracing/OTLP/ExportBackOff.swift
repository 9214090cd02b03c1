/// How long to wait before a batch is sent again, and how often that is tried.
struct ExportRetryPolicy: Sendable {
    /// Before the second attempt; doubled from each to the next.
    var first = Duration.seconds(1)
    /// The longest pause by itself.
    var longest = Duration.seconds(30)
    /// The longest pause that a collector can ask for.
    var maxRetryAfter = Duration.seconds(60)
    /// After this many attempts a batch is given up.
    var attempts = 8

    /// The pause after an attempt that failed; `nil` if there is to be no other.
    ///
    /// - Parameters:
    ///   - attempt: which one failed, from 1.
    ///   - retryAfter: what the collector asked for.
    ///   - jitter: 0...1; a pause lies between half and all of what it would be, so that gateways which lost the same
    ///     collector do not come back all at once.
    func pause(afterAttempt attempt: Int, retryAfter: Duration?, jitter: Double) -> Duration? {
        guard attempt < attempts else { return nil }
        var pause = first
        for _ in 1..<max(1, attempt) where pause < longest { pause = pause * 2 }
        pause = min(pause, longest) * (0.5 + min(max(jitter, 0), 1) / 2)
        guard let retryAfter else { return pause }
        return max(pause, min(retryAfter, maxRetryAfter))
    }
}
