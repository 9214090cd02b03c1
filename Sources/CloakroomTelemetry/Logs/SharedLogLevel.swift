public import Logging
import Synchronization

/// The level from which on lines are written, read by every logger at every line, so that a reload reaches those that
/// were made long before it.
public final class DynamicLogLevel: Sendable {
    private let number: Atomic<UInt8>

    /// Makes one that begins with a level.
    public init(_ level: Logger.Level) {
        number = Atomic(Self.number(of: level))
    }

    /// The level at the moment.
    public var current: Logger.Level {
        // Asked for at every line, written or not: no array of all levels is made for it.
        switch number.load(ordering: .relaxed) {
        case 0: .trace
        case 1: .debug
        case 2: .info
        case 3: .notice
        case 4: .warning
        case 5: .error
        default: .critical
        }
    }

    /// Lines from this level on are written from now on.
    public func set(_ level: Logger.Level) {
        number.store(Self.number(of: level), ordering: .relaxed)
    }

    private static func number(of level: Logger.Level) -> UInt8 {
        switch level {
        case .trace: 0
        case .debug: 1
        case .info: 2
        case .notice: 3
        case .warning: 4
        case .error: 5
        case .critical: 6
        }
    }
}
