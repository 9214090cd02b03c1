import CloakroomTelemetry
import Synchronization

/// The metrics whose changes over time are shown, at one moment. Much smaller than a full snapshot: one entry per route
/// instead of one per route, method, status and version.
struct StatusSample: Sendable, Equatable {
    var routes: [String: RequestStats] = [:]
    /// The durations of all requests, of all routes.
    var latencies = LatencyCounts()
    var upstreams: [String: RequestStats] = [:]
    /// By target of an upstream.
    var targets: [StatusTargetKey: RequestStats] = [:]
    /// Failures of routes and targets, by kind.
    var failures: [Failure: UInt64] = [:]
    /// Connections to upstreams at this moment.
    var connections: UInt64 = 0
    /// By outcome.
    var signIns: [String: DurationStats] = [:]
    /// By outcome.
    var refreshes: [String: DurationStats] = [:]
    /// Logins at providers, by identity.
    var logins: [String: UInt64] = [:]
    /// Logins that failed because of the provider, the store or the configuration, by identity.
    var failedLogins: [String: UInt64] = [:]
    var storeOperations: [String: RequestStats] = [:]
    /// Failures of the store, by reason.
    var storeErrors: [String: UInt64] = [:]
    /// Dropped telemetry, by signal.
    var drops: [String: UInt64] = [:]
    /// Rejected messages and connections, by reason.
    var rejections: [String: UInt64] = [:]
    /// Pauses of accepting, by reason.
    var acceptPauses: [String: UInt64] = [:]

    /// Creates an empty sample.
    init() {}

    /// Aggregates a snapshot of the metrics.
    init(_ reading: MetricsSnapshot) {
        let served = reading["http_server_request_duration_seconds"]
        routes = Self.requests(served, by: { $0["route"] }) { labels in
            labels["http_response_status_code"]?.hasPrefix("5") == true
        }
        for (name, counts) in reading.latencies.routes { routes[name]?.durations.latencies = counts }
        latencies = reading.latencies.all
        // Identity calls are no requests of clients.
        let sent = reading["http_client_request_duration_seconds"].filter { $0.labels["call"] == nil }
        upstreams = Self.requests(sent, by: { $0["upstream"] }, isFailure: Self.isFailed)
        targets = Self.requests(sent, by: StatusTargetKey.init(labels:), isFailure: Self.isFailed)
        failures = Self.failures(served: served, sent: sent)
        connections = reading["cloakroom_upstream_connections"].total
        storeOperations = Self.requests(
            reading["cloakroom_session_store_operation_duration_seconds"], by: { $0["operation"] }
        ) { $0["outcome"] == "error" }
        storeErrors = reading["cloakroom_session_store_errors_total"].counts(by: "reason")
        signIns = Self.requests(reading["cloakroom_sign_in_duration_seconds"], by: { $0["outcome"] })
            .mapValues(\.durations)
        refreshes = Self.requests(reading["cloakroom_token_refresh_duration_seconds"], by: { $0["outcome"] })
            .mapValues(\.durations)
        let ended = reading["cloakroom_logins_total"]
        logins = ended.counts(by: "identity")
        failedLogins = ended.filter { Self.loginFailures.contains($0.labels["outcome"] ?? "") }.counts(by: "identity")
        drops = reading["cloakroom_telemetry_dropped_total"].counts(by: "signal")
        rejections = reading["cloakroom_rejections_total"].counts(by: "reason")
        acceptPauses = reading["cloakroom_accept_pauses_total"].counts(by: "reason")
    }

    /// The sum of all routes.
    var total: RequestStats {
        var total = routes.total
        total.durations.latencies = latencies
        return total
    }

    /// The failures of one kind of a route or target.
    struct Failure: Sendable, Hashable {
        var subject: StatusSubject
        var kind: StatusFailureKind
    }

    /// The outcomes of logins that the user did not cause.
    private static let loginFailures: Set<String> = ["failed", "unavailable", "misconfigured", "store_error"]

    /// The difference from an earlier sample.
    func subtracting(_ earlier: StatusSample) -> StatusSample {
        var change = StatusSample()
        change.routes = routes.changes(since: earlier.routes) { $0.subtracting($1) }
        change.latencies = latencies.subtracting(earlier.latencies)
        change.upstreams = upstreams.changes(since: earlier.upstreams) { $0.subtracting($1) }
        change.targets = targets.changes(since: earlier.targets) { $0.subtracting($1) }
        change.failures = failures.changes(since: earlier.failures) { $0.countSince($1) }
        change.connections = connections
        change.signIns = signIns.changes(since: earlier.signIns) { $0.subtracting($1) }
        change.refreshes = refreshes.changes(since: earlier.refreshes) { $0.subtracting($1) }
        change.storeOperations = storeOperations.changes(since: earlier.storeOperations) { $0.subtracting($1) }
        change.storeErrors = storeErrors.changes(since: earlier.storeErrors) { $0.countSince($1) }
        change.logins = logins.changes(since: earlier.logins) { $0.countSince($1) }
        change.failedLogins = failedLogins.changes(since: earlier.failedLogins) { $0.countSince($1) }
        change.drops = drops.changes(since: earlier.drops) { $0.countSince($1) }
        change.rejections = rejections.changes(since: earlier.rejections) { $0.countSince($1) }
        change.acceptPauses = acceptPauses.changes(since: earlier.acceptPauses) { $0.countSince($1) }
        return change
    }

    private static func requests<Key: Hashable>(
        _ series: [MetricsSnapshot.Series], by key: ([String: String]) -> Key?,
        isFailure: ([String: String]) -> Bool = { _ in false }
    ) -> [Key: RequestStats] {
        var tallies: [Key: RequestStats] = [:]
        for one in series {
            guard let name = key(one.labels), case .histogram(let histogram) = one.value else { continue }
            var tally = tallies.removeValue(forKey: name) ?? RequestStats()
            tally.durations.add(histogram)
            if isFailure(one.labels) { tally.failures &+= histogram.count }
            if one.labels["http_response_status_code"] == "401" { tally.unauthorized &+= histogram.count }
            tallies[name] = tally
        }
        return tallies
    }

    /// A failed request to an upstream. A 4xx, which is also an `error_type`, is the fault of a client.
    private static func isFailed(_ labels: [String: String]) -> Bool {
        let error = labels["error_type"] ?? ""
        return labels["http_response_status_code"]?.hasPrefix("5") == true
            || !error.isEmpty && !error.hasPrefix("4")
    }

    /// Responses with 5xx, and requests that the gateway or the upstream did not complete. Errors of clients are not
    /// failures of a route.
    private static func failures(
        served: [MetricsSnapshot.Series], sent: [MetricsSnapshot.Series]
    ) -> [Failure: UInt64] {
        var counts: [Failure: UInt64] = [:]
        func count(_ one: MetricsSnapshot.Series, _ subject: StatusSubject) {
            guard case .histogram(let histogram) = one.value else { return }
            let kind = StatusFailureKind(
                status: one.labels["http_response_status_code"] ?? "", reason: one.labels["error_type"] ?? "")
            counts[Failure(subject: subject, kind: kind), default: 0] &+= histogram.count
        }
        for one in served {
            let error = one.labels["error_type"] ?? ""
            guard let route = one.labels["route"],
                one.labels["http_response_status_code"]?.hasPrefix("5") == true || error.hasPrefix("upstream_")
                    || error == "internal_error"
            else { continue }
            count(one, .route(route))
        }
        for one in sent where isFailed(one.labels) {
            if let key = StatusTargetKey(labels: one.labels) { count(one, .target(key)) }
        }
        return counts
    }
}

extension [MetricsSnapshot.Series] {
    /// The values of a counter or gauge, summed by one label.
    func counts(by label: String) -> [String: UInt64] {
        var counts: [String: UInt64] = [:]
        for one in self {
            guard let name = one.labels[label], case .number(let number) = one.value else { continue }
            counts[name, default: 0] &+= UInt64(exactly: Swift.max(number, 0).rounded()) ?? 0
        }
        return counts
    }

    /// The sum of all values.
    var total: UInt64 {
        reduce(0) { sum, one in
            guard case .number(let number) = one.value else { return sum }
            return sum &+ (UInt64(exactly: Swift.max(number, 0).rounded()) ?? 0)
        }
    }
}

extension [String: RequestStats] {
    /// The sum of all entries.
    var total: RequestStats { values.reduce(into: RequestStats()) { $0.add($1) } }
}

extension Dictionary {
    /// The difference from an earlier table; entries missing there count from zero.
    fileprivate func changes(since earlier: Self, _ change: (Value, Value) -> Value) -> Self {
        var changes = self
        for (key, value) in self {
            if let before = earlier[key] { changes[key] = change(value, before) }
        }
        return changes
    }
}

/// The samples of the last minutes, used for rates and percentiles; totals since the start do not describe the present.
///
/// Samples are taken on a timer rather than per request of the page, so the first request already shows the preceding
/// minutes. One sample costs as much as one scrape.
final class StatusHistory: Sendable {
    static let interval: Duration = .seconds(10)
    /// The age of the oldest sample.
    static let length: Duration = .seconds(300)
    /// The minimum period for a rate.
    private static let shortest: Duration = .seconds(1)

    private typealias Entry = (at: ContinuousClock.Instant, sample: StatusSample)
    private let entries: Mutex<[Entry]>

    /// Creates an empty history.
    init(startedAt: ContinuousClock.Instant) {
        entries = Mutex([(startedAt, StatusSample())])
    }

    /// Adds a sample; samples must be added in order of time.
    func append(_ sample: StatusSample, at now: ContinuousClock.Instant) {
        entries.withLock { entries in
            entries.append((now, sample))
            // The newest sample older than the period is kept, so the whole period is covered.
            while entries.count > 1, now - entries[1].at >= Self.length { entries.removeFirst() }
        }
    }

    /// The number of samples.
    var count: Int { entries.withLock { $0.count } }

    /// The change up to a current sample, over the period covered by samples.
    func window(to sample: StatusSample, at now: ContinuousClock.Instant) -> StatusWindow {
        let first = entries.withLock { entries in
            // If the timer did not run, for example because the process was stopped, samples may be much older.
            entries.last { now - $0.at >= Self.length } ?? entries.first
        }
        guard let first else { return StatusWindow(duration: Self.shortest, change: sample) }
        return StatusWindow(duration: max(now - first.at, Self.shortest), change: sample.subtracting(first.sample))
    }
}

/// The change within a period.
struct StatusWindow: Sendable {
    /// At least a second.
    let duration: Duration
    let change: StatusSample

    /// The rate per second.
    func rate(_ count: UInt64) -> Double { Double(count) / (duration / .seconds(1)) }
}
