public import Logging
import Synchronization

/// The minimum log level, read by every logger at every line, so a reload also affects existing loggers.
public final class DynamicLogLevel: Sendable {
    private let number: Atomic<UInt8>

    /// Creates a shared level with an initial value.
    public init(_ level: Logger.Level) {
        number = Atomic(Self.number(of: level))
    }

    /// The current level.
    public var current: Logger.Level {
        // Read at every line, written or not, so no array of all levels is created.
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

    /// Sets the level.
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
