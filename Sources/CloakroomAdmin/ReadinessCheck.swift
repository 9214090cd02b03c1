/// One of the things that must hold before traffic should come here.
public struct ReadinessCheck: Sendable, Equatable {
    /// A short constant name: `listening`, `store`, `draining`.
    public let name: String
    /// Whether it holds.
    public let isReady: Bool
    /// What to look at when it does not. It is shown to whoever reaches the admin listener, so it names no secret.
    public let detail: String?

    /// A result.
    public init(name: String, isReady: Bool, detail: String? = nil) {
        self.name = name
        self.isReady = isReady
        self.detail = detail
    }
}

/// Finds out whether something holds, now. It should answer within ``ReadinessReport/timeLimit`` and end when its task
/// is cancelled.
public struct ReadinessProbe: Sendable {
    /// The name of the result.
    public let name: String
    let check: @Sendable () async -> ReadinessCheck

    /// - Parameters:
    ///   - name: what the report calls it when it does not answer in time.
    ///   - check: looks.
    public init(name: String, check: @escaping @Sendable () async -> ReadinessCheck) {
        self.name = name
        self.check = check
    }
}
