/// Bounds the time of a call.
public enum TimeLimit {
    /// Runs a call, and cancels it when the time has passed.
    /// - Returns: The result of the call, also if it succeeds after it was cancelled.
    /// - Throws: The error of the call: after the time limit it is what the call throws when it is cancelled, because only
    ///   the call knows how far it came. `CancellationError` if this task is cancelled.
    public static func run<R: Sendable>(
        _ limit: Duration, _ call: @escaping @Sendable () async throws -> R
    ) async throws -> R {
        try await withThrowingTaskGroup(of: R?.self) { group in
            defer { group.cancelAll() }
            group.addTask { try await call() }
            group.addTask {
                try await Task.sleep(for: limit)
                return nil
            }
            while let first = try await group.next() {
                if let result = first { return result }
                group.cancelAll()
            }
            throw CancellationError()
        }
    }
}
