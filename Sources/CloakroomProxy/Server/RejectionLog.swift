import Logging

/// Says what was refused on the wire, and from whom, but so seldom that nobody can fill a disk with it: the metric counts
/// them all.
struct RejectionLog {
    private let logger: Logger
    /// Lines of one event loop.
    private var lines = FixedWindowLimiter(limit: 10)

    init(_ logger: Logger) {
        self.logger = logger
    }

    /// Something was refused.
    /// - Parameter now: Nanoseconds of a clock that never goes backwards.
    mutating func note(_ kind: StaticString, peer: String, now: UInt64) {
        guard lines.tryAcquire(at: now) else { return }
        logger.info("refused on the wire", metadata: ["kind": "\(kind)", "peer": "\(peer)"])
    }
}
