/// What was waited for did not happen.
package struct NeverHappened: Error, CustomStringConvertible {
    /// What it was.
    package let description: String

    /// Names it.
    package init(description: String) {
        self.description = description
    }
}

/// Waits for something to become so. The limit is generous: it is there to end a broken test, not to measure.
package func eventually(
    _ what: String, within limit: Duration = .seconds(30), _ condition: @Sendable () async throws -> Bool
) async throws {
    let end = ContinuousClock.now + limit
    while ContinuousClock.now < end {
        if try await condition() { return }
        try await Task.sleep(for: .milliseconds(2))
    }
    throw NeverHappened(description: what)
}

/// Waits until a number stops growing, as it does once every buffer on the way is full.
/// - Returns: The number then.
package func waitUntilStable(_ value: @Sendable () -> Int) async throws -> Int {
    var last = value()
    var sameSince = ContinuousClock.now
    while ContinuousClock.now - sameSince < .milliseconds(250) {
        try await Task.sleep(for: .milliseconds(10))
        let now = value()
        if now != last {
            last = now
            sameSince = .now
        }
    }
    return last
}
