import FoundationEssentials
import Synchronization

/// A clock that changes only when it is advanced.
final class TestClock: Sendable {
    private let time = Mutex(Date(timeIntervalSince1970: 1_750_000_000))

    func now() -> Date {
        time.withLock { $0 }
    }

    func advance(by seconds: Double) {
        time.withLock { $0 = $0.addingTimeInterval(seconds) }
    }
}
