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

/// Runs a test, and then stops what it has used, also if it throws.
func stopping<Value>(_ stop: () async -> Void, after test: () async throws -> Value) async throws -> Value {
    do {
        let value = try await test()
        await stop()
        return value
    } catch {
        await stop()
        throw error
    }
}
