/// The retry policy for batches.
struct ExportRetryPolicy: Sendable {
    /// The delay before the second attempt; doubled for each further one.
    var first = Duration.seconds(1)
    /// The maximum delay, unless the collector requests more.
    var longest = Duration.seconds(30)
    /// The maximum delay that a collector can request.
    var maxRetryAfter = Duration.seconds(60)
    /// The maximum number of attempts.
    var attempts = 8

    /// The delay after a failed attempt; `nil` if the batch is abandoned.
    ///
    /// - Parameters:
    ///   - attempt: The number of the failed attempt, from 1.
    ///   - retryAfter: The delay requested by the collector.
    ///   - jitter: 0...1; scales the delay between half and all of its value, so that gateways that lost the same
    ///     collector do not reconnect at the same time.
    func pause(afterAttempt attempt: Int, retryAfter: Duration?, jitter: Double) -> Duration? {
        guard attempt < attempts else { return nil }
        var pause = first
        for _ in 1..<max(1, attempt) where pause < longest { pause = pause * 2 }
        pause = min(pause, longest) * (0.5 + min(max(jitter, 0), 1) / 2)
        guard let retryAfter else { return pause }
        return max(pause, min(retryAfter, maxRetryAfter))
    }
}
