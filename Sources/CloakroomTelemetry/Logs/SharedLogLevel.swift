public import Logging
import Synchronization

/// The level from which on lines are written, read by every logger at every line, so that a reload reaches those that
/// were made long before it.
public final class SharedLogLevel: Sendable {
    /// Index into `Logger.Level.allCases`, which begins with `trace`.
    private let index: Atomic<Int>

    /// Makes one that begins with a level.
    public init(_ level: Logger.Level) {
        index = Atomic(Self.index(of: level))
    }

    /// The level at the moment.
    public var current: Logger.Level { Logger.Level.allCases[index.load(ordering: .relaxed)] }

    /// Lines from this level on are written from now on.
    public func set(_ level: Logger.Level) {
        index.store(Self.index(of: level), ordering: .relaxed)
    }

    private static func index(of level: Logger.Level) -> Int {
        Logger.Level.allCases.firstIndex(of: level) ?? 0
    }
}
