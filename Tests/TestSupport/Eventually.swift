/// A condition that did not become true in time.
package struct NeverHappened: Error, CustomStringConvertible {
    /// The condition.
    package let description: String

    /// Creates the error for a condition.
    package init(description: String) {
        self.description = description
    }
}

/// Waits until a condition is true. The generous limit ends a broken test and is no measurement.
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

/// Waits until a number stops growing, as when all buffers between two peers are full.
/// - Returns: The final number.
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
