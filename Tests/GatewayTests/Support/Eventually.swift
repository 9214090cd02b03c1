/// Waits until something has happened, and fails when it does not. The limit is for machines with much else to do: who
/// waits goes on as soon as it has come true.
func eventually<R>(
    _ what: String, within limit: Duration = .seconds(40), _ look: () async throws -> R?
) async throws -> R {
    let deadline = ContinuousClock.now + limit
    while true {
        if let result = try await look() { return result }
        guard ContinuousClock.now < deadline else { throw NeverHappened(what: what) }
        try await Task.sleep(for: .milliseconds(10))
    }
}

/// The same for a condition.
func eventually(
    _ what: String, within limit: Duration = .seconds(40), isTrue look: () async throws -> Bool
) async throws {
    _ = try await eventually(what, within: limit) { try await look() ? true : nil }
}

struct NeverHappened: Error, CustomStringConvertible {
    let what: String

    var description: String { "never happened: \(what)" }
}
