/// The result of one readiness check.
public struct ReadinessCheck: Sendable, Equatable {
    /// A short constant name: `listening`, `store`, `draining`.
    public let name: String
    /// Whether the check succeeded.
    public let isReady: Bool
    /// The reason of a failure. It is visible to all clients of the admin listener, so it contains no secret.
    public let detail: String?

    /// Creates a result.
    public init(name: String, isReady: Bool, detail: String? = nil) {
        self.name = name
        self.isReady = isReady
        self.detail = detail
    }
}

/// Performs a readiness check. It should return within ``ReadinessReport/timeLimit`` and stop when its task is
/// cancelled.
public struct ReadinessProbe: Sendable {
    /// The name of the result.
    public let name: String
    let check: @Sendable () async -> ReadinessCheck

    /// - Parameters:
    ///   - name: The name in the report if the check times out.
    ///   - check: Performs the check.
    public init(name: String, check: @escaping @Sendable () async -> ReadinessCheck) {
        self.name = name
        self.check = check
    }
}
