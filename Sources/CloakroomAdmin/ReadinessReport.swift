/// The results of all checks, in the configured order.
struct ReadinessReport: Sendable, Equatable {
    /// The time limit of a check; a slower check fails, because probes of an orchestrator time out too.
    static let timeLimit: Duration = .milliseconds(900)

    let checks: [ReadinessCheck]

    var isReady: Bool { checks.allSatisfy(\.isReady) }

    /// Runs all probes concurrently.
    static func make(_ probes: [ReadinessProbe], timeLimit: Duration = timeLimit) async -> ReadinessReport {
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
            group.addTask { await probe.check() }
            group.addTask {
                try? await Task.sleep(for: timeLimit)
                return late
            }
            defer { group.cancelAll() }
            return await group.next() ?? late
        }
    }
}

extension ReadinessReport: Encodable {
    private enum Key: String, CodingKey {
        case ready
        case checks
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(isReady, forKey: .ready)
        try container.encode(checks, forKey: .checks)
    }
}

extension ReadinessCheck: Encodable {
    private enum Key: String, CodingKey {
        case name
        case ready
        case detail
    }

    /// `{"name": …, "ready": …, "detail": …}`.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(name, forKey: .name)
        try container.encode(isReady, forKey: .ready)
        try container.encodeIfPresent(detail, forKey: .detail)
    }
}
