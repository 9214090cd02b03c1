/// What was waited for did not happen.
struct NeverHappened: Error, CustomStringConvertible {
    let description: String
}

/// Waits for something to become so. The limit is generous: it is there to end a broken test, not to measure.
func eventually(
    _ what: String, within limit: Duration = .seconds(20), _ condition: @Sendable () async throws -> Bool
) async throws {
    let end = ContinuousClock.now + limit
    while ContinuousClock.now < end {
        if try await condition() { return }
        try await Task.sleep(for: .milliseconds(2))
    }
    throw NeverHappened(description: what)
}
