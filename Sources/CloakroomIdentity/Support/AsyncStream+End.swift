extension AsyncStream where Element == Void {
    /// Waits for the end of the stream, at most for the given time; returns at once when its task is cancelled.
    /// - Parameter sleep: Waits for a duration; throws when its task is cancelled.
    func end(
        within bound: Duration,
        sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
    ) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { for await _ in self {} }
            group.addTask { try? await sleep(bound) }
            await group.next()
            group.cancelAll()
        }
    }
}
