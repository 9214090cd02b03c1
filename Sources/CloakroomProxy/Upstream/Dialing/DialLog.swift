import Logging
import Synchronization

/// Says why a target cannot be reached, but not at every attempt: whoever sends requests must not be able to fill a disk.
final class ConnectFailureLog: Sendable {
    /// Nanoseconds between two lines.
    static let interval: UInt64 = 10_000_000_000
    private static let longestReason = 500

    private struct State {
        var mayLogAt: UInt64 = 0
        var suppressed = 0
    }

    private let logger: Logger
    private let state = Mutex(State())

    /// - Parameter logger: Carries the names of upstream and target.
    init(_ logger: Logger) {
        self.logger = logger
    }

    /// An attempt failed.
    /// - Parameter now: Nanoseconds of a clock that never goes backwards.
    func failed(_ kind: UpstreamFailure.Kind, _ error: any Error, now: UInt64) {
        let unlogged: Int? = state.withLock { state in
            guard now >= state.mayLogAt else {
                state.suppressed += 1
                return nil
            }
            state.mayLogAt = now &+ Self.interval
            defer { state.suppressed = 0 }
            return state.suppressed
        }
        guard let unlogged else { return }
        logger.warning(
            "upstream cannot be reached",
            metadata: [
                "kind": "\(kind)", "reason": "\(String("\(error)".prefix(Self.longestReason)))",
                "unlogged": "\(unlogged)",
            ])
    }
}
