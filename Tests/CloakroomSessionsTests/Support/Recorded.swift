import Synchronization

/// The values that a callback was called with, in their order.
final class Recorded<Value: Sendable>: Sendable {
    private let values = Mutex<[Value]>([])

    var all: [Value] { values.withLock { $0 } }
    func append(_ value: Value) { values.withLock { $0.append(value) } }
}

extension Recorded<Int> {
    var sum: Int { all.reduce(0, +) }
}
