import Logging

/// Says what was refused on the wire, and from whom, but so seldom that nobody can fill a disk with it: the metric counts
/// them all.
struct RejectionLog {
    private let logger: Logger
    private var count = 0
    private var windowEnd: UInt64 = 0

    /// So many lines of one event loop in one window.
    private static let limit = 10
    /// The length of a window, in nanoseconds.
    private static let window: UInt64 = 10_000_000_000

    init(_ logger: Logger) {
        self.logger = logger
    }

    /// Something was refused.
    /// - Parameter now: Nanoseconds of a clock that never goes backwards.
    mutating func note(_ kind: StaticString, peer: String, now: UInt64) {
        if now >= windowEnd {
            windowEnd = now &+ Self.window
            count = 0
        }
        count += 1
        guard count <= Self.limit else { return }
        logger.info("refused on the wire", metadata: ["kind": "\(kind)", "peer": "\(peer)"])
    }
}
