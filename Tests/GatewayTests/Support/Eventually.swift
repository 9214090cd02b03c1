/// Polls until a result exists, and throws if there is none within the limit. The limit allows for loaded machines; the
/// function returns as soon as there is a result.
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

/// Polls until a condition is true.
func eventually(
    _ what: String, within limit: Duration = .seconds(40), isTrue look: () async throws -> Bool
) async throws {
    _ = try await eventually(what, within: limit) { try await look() ? true : nil }
}

struct NeverHappened: Error, CustomStringConvertible {
    let what: String

    var description: String { "not within the time limit: \(what)" }
}
