/// The result of one readiness check.
public struct ReadinessCheck: Sendable, Equatable, Encodable {
    /// A short constant name: `listening`, `store`, `draining`.
    public let name: String
    /// Whether the check succeeded.
    public let isReady: Bool
    /// The reason of a failure. It is visible to all clients of the admin listener, so it contains no secret.
    public var detail: String?

    private enum CodingKeys: String, CodingKey { case name, detail, isReady = "ready" }
}

/// Performs a readiness check.
public struct ReadinessProbe: Sendable {
    /// The name of the result.
    public let name: String
    let failure: String?
    let isReady: @Sendable () async -> Bool

    /// - Parameters:
    ///   - name: The name of the result.
    ///   - failure: Why the check fails; see ``ReadinessCheck/detail``.
    ///   - isReady: Performs the check. It should return within ``ReadinessReport/timeLimit`` and stop when its task is
    ///     cancelled.
    public init(name: String, failure: String? = nil, isReady: @escaping @Sendable () async -> Bool) {
        self.name = name
        self.failure = failure
        self.isReady = isReady
    }
}

/// The results of all checks, in the configured order.
package struct ReadinessReport: Sendable, Equatable, Encodable {
    /// The time limit of a check; a slower check fails, because probes of an orchestrator time out too.
    package static let timeLimit: Duration = .milliseconds(900)

    let checks: [ReadinessCheck]
    package let isReady: Bool

    private enum CodingKeys: String, CodingKey { case checks, isReady = "ready" }

    init(checks: [ReadinessCheck]) {
        self.checks = checks
        isReady = checks.allSatisfy(\.isReady)
    }

    /// Runs all probes concurrently.
    package static func make(_ probes: [ReadinessProbe], timeLimit: Duration = timeLimit) async -> ReadinessReport {
        await withTaskGroup(of: (Int, ReadinessCheck).self) { group in
            for (index, probe) in probes.enumerated() {
                group.addTask { (index, await result(of: probe, timeLimit)) }
            }
            var results: [(Int, ReadinessCheck)] = []
            for await result in group { results.append(result) }
            return ReadinessReport(checks: results.sorted { $0.0 < $1.0 }.map(\.1))
        }
    }

    private static func result(of probe: ReadinessProbe, _ timeLimit: Duration) async -> ReadinessCheck {
        let late = ReadinessCheck(name: probe.name, isReady: false, detail: "timed out")
        return await withTaskGroup(of: ReadinessCheck.self) { group in
            group.addTask {
                let isReady = await probe.isReady()
                return ReadinessCheck(name: probe.name, isReady: isReady, detail: isReady ? nil : probe.failure)
            }
            group.addTask {
                try? await Task.sleep(for: timeLimit)
                return late
            }
            defer { group.cancelAll() }
            return await group.next() ?? late
        }
    }
}
