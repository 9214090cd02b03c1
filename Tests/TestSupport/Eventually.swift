/// A condition that did not become true, or a result that did not exist, in time.
package struct TimeoutError: Error, CustomStringConvertible {
    private let what: String

    /// Creates the error for a condition or result.
    package init(_ what: String) {
        self.what = what
    }

    package var description: String { "not within the time limit: \(what)" }
}

/// Waits until a result exists. The generous limit ends a broken test and is no measurement.
package func eventually<R>(
    _ what: String, within limit: Duration = .seconds(40), _ result: () async throws -> R?
) async throws -> R {
    let end = ContinuousClock.now + limit
    var pause = Duration.milliseconds(2)
    while true {
        if let result = try await result() { return result }
        guard ContinuousClock.now < end else { throw TimeoutError(what) }
        try await Task.sleep(for: pause)
        pause = min(pause * 5 / 4, .milliseconds(10))
    }
}

/// Waits until a condition is true.
package func eventually(
    _ what: String, within limit: Duration = .seconds(40), isTrue condition: () async throws -> Bool
) async throws {
    let _: Void = try await eventually(what, within: limit) { try await condition() ? () : nil }
}

/// Waits until a number stops growing, as when all buffers between two peers are full.
/// - Returns: The final number.
package func waitUntilStable(_ value: @Sendable () -> Int) async throws -> Int {
    var last = value()
    var sameSince = ContinuousClock.now
    while ContinuousClock.now - sameSince < .milliseconds(750) {
        try await Task.sleep(for: .milliseconds(10))
        let now = value()
        if now != last {
            last = now
            sameSince = .now
        }
    }
    return last
}
