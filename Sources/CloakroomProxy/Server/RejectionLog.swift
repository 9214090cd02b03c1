import Logging

/// Logs rejected messages and their peers, at most 10 lines per 10 s and event loop, so that clients cannot fill the
/// disk. The metric counts all of them.
struct RejectionLog {
    private let logger: Logger
    /// Line budget of one event loop.
    private var lines = FixedWindowLimiter(limit: 10)

    init(_ logger: Logger) {
        self.logger = logger
    }

    /// Logs a rejected message, if the limit allows.
    /// - Parameter now: Nanoseconds of a monotonic clock.
    mutating func note(_ kind: StaticString, peer: String, now: UInt64) {
        guard lines.tryAcquire(at: now) else { return }
        logger.info("malformed request rejected", metadata: ["kind": "\(kind)", "peer": "\(peer)"])
    }
}
