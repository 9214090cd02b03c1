public import CloakroomCore
import CloakroomTelemetry
import Foundation

/// Creates the status document for each request, from the metrics and the status source.
///
/// Folder `Status/`: computes the status document from metrics and status values, and decides which alerts it shows.
struct StatusReporter: Sendable {
    let source: StatusDataSource
    let registry: PrometheusRegistry
    let history: StatusHistory
    let trends: StatusTrends
    let startedAt: WallTime
    let startedInstant: ContinuousClock.Instant

    init(source: StatusDataSource, registry: PrometheusRegistry, startedAt: WallTime, instant: ContinuousClock.Instant)
    {
        self.source = source
        self.registry = registry
        self.startedAt = startedAt
        startedInstant = instant
        history = StatusHistory(startedAt: instant)
        trends = StatusTrends(startedAt: instant, time: startedAt)
    }

    /// Takes a sample for later rates and trends.
    func takeSample(at now: ContinuousClock.Instant) {
        let sample = StatusSample(registry.recordedReading())
        history.append(sample, at: now)
        trends.append(sample, at: now, time: startedAt + (now - startedInstant))
    }

    /// Takes samples until its task is cancelled.
    func runSampling() async {
        while true {
            do { try await Task.sleep(for: StatusHistory.interval) } catch { return }
            takeSample(at: .now)
        }
    }

    func document(
        readiness: ReadinessReport, now: WallTime, instant: ContinuousClock.Instant
    ) -> StatusDocument {
        let reading = registry.snapshot()
        let sample = StatusSample(reading)
        let window = history.window(to: sample, at: instant)
        let isDraining = source.isDraining()
        let upstreams = source.upstreams()
        var document = StatusDocument(
            state: isDraining ? .draining : readiness.isReady ? .ready : .notReady,
            generatedAt: now.iso8601, windowSeconds: (window.duration / .seconds(1)).rounded(places: 1),
            process: .init(
                version: source.version, commit: source.commit, startedAt: startedAt.iso8601,
                uptimeSeconds: (instant - startedInstant).components.seconds),
            config: .init(source.config()), readiness: readiness.checks,
            traffic: .init(sample.total, window.change.total, window),
            routes: Self.routes(source.routes(), sample, window),
            upstreams: Self.upstreams(upstreams, reading, sample, window, now: now),
            identities: Self.identities(source.identities(), reading, sample, window, now: now),
            signIns: Self.outcomes(
                reading["cloakroom_sign_ins_total"].counts(by: "outcome"), window.change.signIns),
            sessions: Self.sessions(reading, store: source.store),
            refreshes: Self.outcomes(
                reading["cloakroom_token_refreshes_total"].counts(by: "outcome"), window.change.refreshes),
            store: Self.store(reading, kind: source.store, sample, window),
            certificates: Self.certificates(source.certificates(), now: now),
            telemetryDrops: Self.counts(sample.drops, window.change.drops),
            wireRejections: Self.counts(sample.rejections, window.change.rejections))
        document.connections = Self.connections(reading, sample, window)
        document.identityCallFailures = source.identityCalls().map { .init($0, now: now) }
        document.recentFailures = trends.recentFailures()
        document.trendsNotKept = trends.omittedCount
        document.alerts = StatusAlert.all(in: document, upstreams)
        document.headline = StatusAlert.headline(document.state, document.alerts)
        return document
    }
}

extension StatusReporter {
    /// - Parameter configured: The routes of the configuration. Those that it had before a reload may have requests too.
    static func routes(
        _ configured: [(name: String, serves: String)], _ sample: StatusSample, _ window: StatusWindow
    ) -> [StatusDocument.Route] {
        let serves = Dictionary(configured.map { ($0.name, $0.serves) }) { first, _ in first }
        let routes = Set(sample.routes.keys).union(serves.keys).map { name in
            let tally = sample.routes[name] ?? RequestStats()
            let change = window.change.routes[name] ?? RequestStats()
            return StatusDocument.Route(
                name: name, serves: serves[name], requests: .init(tally, change, window),
                unauthorizedTotal: tally.unauthorized, unauthorizedRecent: change.unauthorized)
        }
        return routes.sorted { one, other in
            (other.requests.recent, other.requests.total, one.name)
                < (one.requests.recent, one.requests.total, other.name)
        }
    }

    static func upstreams(
        _ upstreams: [UpstreamStatus], _ reading: MetricsSnapshot, _ sample: StatusSample, _ window: StatusWindow,
        now: WallTime
    ) -> [StatusDocument.Upstream] {
        let connections = reading["cloakroom_upstream_connections"]
        let active = connections.filter { $0.labels["state"] == "active" }.counts(by: "upstream")
        let idle = connections.filter { $0.labels["state"] == "idle" }.counts(by: "upstream")
        let pending = reading["cloakroom_upstream_pending_requests"].counts(by: "upstream")
        let retries = reading["cloakroom_upstream_retries_total"]
            .filter { ["sent", nil].contains($0.labels["outcome"]) }.counts(by: "upstream")
        return upstreams.map { upstream in
            let name = upstream.name
            return StatusDocument.Upstream(
                name: name, health: .init(upstream.targets.map(\.condition)),
                requests: .init(
                    sample.upstreams[name] ?? RequestStats(), window.change.upstreams[name] ?? RequestStats(), window),
                inFlight: active[name] ?? 0, idle: idle[name] ?? 0, pending: pending[name] ?? 0,
                retriesTotal: retries[name] ?? 0, panic: upstream.isPanicking,
                retryBudgetSpent: upstream.isRetryBudgetSpent,
                staleNames: upstream.staleNames.isEmpty ? nil : upstream.staleNames,
                targets: upstream.targets.map { .init($0, now: now) })
        }
    }

    static func identities(
        _ identities: [IdentityStatus], _ reading: MetricsSnapshot, _ sample: StatusSample, _ window: StatusWindow,
        now: WallTime
    ) -> [StatusDocument.Identity] {
        let logouts = reading["cloakroom_provider_logouts_total"]
            .filter { ["success", "no_session"].contains($0.labels["outcome"]) }.counts(by: "identity")
        return identities.map { identity in
            let name = identity.name
            return StatusDocument.Identity(
                name: name, issuer: identity.issuer, state: identity.condition.rawValue, keys: identity.keys,
                skippedKeys: identity.skippedKeys,
                keysAgeSeconds: identity.keysFetchedAt.map(now.seconds(since:)),
                loginsTotal: sample.logins[name] ?? 0, loginsRecent: window.change.logins[name] ?? 0,
                loginsFailedRecent: window.change.failedLogins[name] ?? 0, logoutsTotal: logouts[name] ?? 0,
                findings: identity.findings.isEmpty ? nil : identity.findings,
                lastFailure: identity.lastFailure.map { .init($0, now: now) })
        }
    }

    static func outcomes(
        _ totals: [String: UInt64], _ recent: [String: DurationStats]
    ) -> [StatusDocument.Outcome] {
        totals.map { outcome, total in
            let tally = recent[outcome] ?? DurationStats()
            return StatusDocument.Outcome(
                outcome: outcome, total: total, recent: tally.count, latency: .init(tally))
        }.sorted { ($1.total, $0.outcome) < ($0.total, $1.outcome) }
    }

    static func sessions(_ reading: MetricsSnapshot, store: String) -> StatusDocument.Sessions {
        let ended = reading["cloakroom_sessions_ended_total"].counts(by: "reason")
        let bound = reading["cloakroom_device_proofs_total"].counts(by: "outcome")["bound"] ?? 0
        let apps = reading["cloakroom_app_sessions_created_total"].counts(by: "app").sorted { $0.key < $1.key }
        return StatusDocument.Sessions(
            // Counting the sessions of a shared server would be too expensive.
            active: store == "valkey" ? nil : reading["cloakroom_sessions_active"].total,
            createdTotal: reading["cloakroom_sessions_created_total"].total,
            boundTotal: bound > 0 ? bound : nil,
            apps: apps.isEmpty ? nil : apps.map { .init(app: $0.key, createdTotal: $0.value) },
            ended: ended.map { .init(reason: $0.key, total: $0.value) }
                .sorted { ($1.total, $0.reason) < ($0.total, $1.reason) })
    }

    static func store(
        _ reading: MetricsSnapshot, kind: String, _ sample: StatusSample, _ window: StatusWindow
    ) -> StatusDocument.Store {
        let isUp = reading["cloakroom_session_store_up"]
        let operations = sample.storeOperations.map { operation, tally in
            StatusDocument.Store.Operation(
                operation: operation,
                requests: .init(tally, window.change.storeOperations[operation] ?? RequestStats(), window))
        }
        let errors = sample.storeErrors.filter { $0.value > 0 }.map { reason, total in
            StatusDocument.Store.Failure(
                reason: reason, hint: SessionStoreError.Reason(rawValue: reason)?.advice ?? "", total: total,
                recent: window.change.storeErrors[reason] ?? 0)
        }
        return StatusDocument.Store(
            kind: kind, up: isUp.isEmpty ? nil : isUp.total > 0,
            operations: operations.sorted { ($1.requests.total, $0.operation) < ($0.requests.total, $1.operation) },
            errors: errors.sorted { ($1.recent, $1.total, $0.reason) < ($0.recent, $0.total, $1.reason) })
    }

    static func certificates(_ certificates: [CertificateStatus], now: WallTime) -> [StatusDocument.Certificate] {
        certificates.sorted { ($0.notAfter, $0.listener, $0.file) < ($1.notAfter, $1.listener, $1.file) }.map {
            let seconds = Double(($0.notAfter - now).components.seconds)
            return StatusDocument.Certificate(
                listener: $0.listener, file: $0.file, names: $0.names, notAfter: $0.notAfter.iso8601,
                // Rounded down: a certificate that expired an hour ago has −1 day left, not 0.
                daysLeft: Int64((seconds / 86_400).rounded(.down)))
        }
    }

    /// `nil` if the gateway has no listener yet.
    static func connections(
        _ reading: MetricsSnapshot, _ sample: StatusSample, _ window: StatusWindow
    ) -> StatusDocument.Connections? {
        let limit = reading["cloakroom_connections_limit"].total
        guard limit > 0 else { return nil }
        let states = reading["cloakroom_connections_by_state"]
        return StatusDocument.Connections(
            open: states.total, active: states.counts(by: "state")["active"] ?? 0, limit: limit,
            pausedListeners: reading["cloakroom_accept_paused_listeners"].total,
            pausesTotal: reading["cloakroom_accept_pauses_total"].total,
            pausesRecent: counts(sample.acceptPauses, window.change.acceptPauses))
    }

    static func counts(_ totals: [String: UInt64], _ recent: [String: UInt64]) -> [StatusDocument.Count] {
        totals.map { .init(kind: $0.key, total: $0.value, recent: recent[$0.key] ?? 0) }
            .sorted { ($1.total, $0.kind) < ($0.total, $1.kind) }
    }
}

extension StatusDocument.Config {
    init(_ status: ConfigStatus) {
        self.init(
            file: status.file, hash: status.hash, loadedAt: status.loadedAt.iso8601,
            lastReload: status.lastReload.map {
                .init(at: $0.time.iso8601, succeeded: $0.problems.isEmpty, problems: $0.problems)
            })
    }
}

extension StatusDocument.Requests {
    init(_ all: RequestStats, _ recent: RequestStats, _ window: StatusWindow) {
        self.init(
            total: all.count, recent: recent.count, perSecond: window.rate(recent.count).rounded(places: 3),
            errorShare: recent.failureShare?.rounded(places: 4), errorsTotal: all.failures,
            latency: .init(recent.durations))
    }
}

extension StatusDocument.Latency {
    /// The number of values that p95 needs.
    private static let fewest: UInt64 = 20

    /// `nil` if there are no values.
    init?(_ tally: DurationStats) {
        let needs: [(name: String, quantile: Double, count: UInt64)] = [
            ("p50_ms", 0.5, 2), ("p95_ms", 0.95, Self.fewest), ("p99_ms", 0.99, 100),
        ]
        let count = tally.count
        let found = needs.compactMap { tally.quantile(count < $0.count ? 1 : $0.quantile) }
        guard found.count == needs.count else { return nil }
        let beyond = zip(needs, found).filter { $0.1.isLowerBound }.map { $0.0.name }
        let few = needs.filter { count < $0.count }.map { $0.name }
        self.init(
            p50Ms: found[0].milliseconds, p95Ms: found[1].milliseconds, p99Ms: found[2].milliseconds,
            atLeast: beyond.isEmpty ? nil : beyond, tooFew: few.isEmpty ? nil : few,
            samplesMs: tally.latencies?.samples(fewerThan: Self.fewest)?.map { ($0 * 1_000).rounded(places: 2) })
    }
}

extension StatusDocument.Failure {
    fileprivate init(_ failure: FailureStatus, now: WallTime) {
        self.init(
            at: failure.time.iso8601, secondsAgo: now.seconds(since: failure.time), reason: failure.reason,
            remedy: failure.remedy)
    }
}

extension StatusDocument.IdentityCallFailure {
    init(_ failure: IdentityCallFailure, now: WallTime) {
        var (upstream, identity): (String?, String?)
        switch failure.source {
        case .upstream(let name): upstream = name
        case .identity(let name): identity = name
        }
        self.init(
            at: failure.time.iso8601, secondsAgo: now.seconds(since: failure.time), call: failure.call.rawValue,
            upstream: upstream, identity: identity, method: failure.method,
            server: failure.server, path: failure.path, status: failure.status, reason: failure.defect.reason,
            key: failure.defect.key, expected: failure.defect.expected,
            found: failure.defect.found.isEmpty ? nil : failure.defect.found, durationMs: failure.milliseconds,
            hint: failure.hint)
    }
}

extension StatusDocument.Upstream.Target {
    init(_ target: UpstreamStatus.Target, now: WallTime) {
        self.init(
            address: target.address, peer: target.peer, circuit: target.circuit.rawValue,
            state: target.condition.rawValue, reason: target.reason, until: target.until?.iso8601,
            secondsLeft: target.until.map { $0.seconds(since: now) }, inFlight: target.inFlight,
            lastFailure: target.lastFailure.map { .init($0, now: now) })
    }
}

extension StatusDocument.Upstream.Health {
    /// Targets that are drained on purpose do not count.
    init(_ conditions: [TargetCondition]) {
        let counted = conditions.filter { $0 != .draining }
        let unusable = counted.count { !$0.isUsable }
        self = unusable == 0 ? .healthy : unusable == counted.count ? .down : .degraded
    }
}

extension TargetCondition {
    /// Whether the target gets requests.
    var isUsable: Bool {
        switch self {
        case .up, .warming: true
        case .ejected, .backingOff, .down, .draining: false
        }
    }
}

extension HistogramQuantile {
    /// Milliseconds from a histogram in seconds, rounded to hundredths; buckets are not more precise.
    fileprivate var milliseconds: Double { (seconds * 1_000).rounded(places: 2) }
}

extension WallTime {
    /// Whole seconds since an earlier time; 0 if the clock was set back.
    fileprivate func seconds(since earlier: WallTime) -> Int64 { max((self - earlier).components.seconds, 0) }
}

extension Double {
    /// Rounded to this number of decimal places.
    func rounded(places: Int) -> Double {
        let factor = pow(10, Double(places))
        return (self * factor).rounded() / factor
    }
}

/// The data of the status page that is not part of the metrics. Contains no session data. Each closure is called for
/// every request of the page, from any thread, and must not block.
public struct StatusDataSource: Sendable {
    /// The effective configuration and the result of the last reload.
    public var config: @Sendable () -> ConfigStatus
    /// The routes, in the order of the configuration, each with what it serves.
    public var routes: @Sendable () -> [(name: String, serves: String)]
    /// The upstreams, in the order of the configuration.
    public var upstreams: @Sendable () -> [UpstreamStatus]
    /// The OpenID Providers, in the order of the configuration.
    public var identities: @Sendable () -> [IdentityStatus]
    /// The last failed identity calls, the newest first.
    public var identityCalls: @Sendable () -> [IdentityCallFailure]
    /// The certificates of all listeners.
    public var certificates: @Sendable () -> [CertificateStatus]
    /// Whether the gateway is draining.
    public var isDraining: @Sendable () -> Bool
    /// The kind of session store, as configured: `memory`, `sqlite`, `valkey`.
    public var store: String
    /// The running version.
    public var version: String
    /// The commit of the build; `unknown` if not specified.
    public var commit: String

    package init(
        config: @escaping @Sendable () -> ConfigStatus,
        routes: @escaping @Sendable () -> [(name: String, serves: String)] = { [] },
        upstreams: @escaping @Sendable () -> [UpstreamStatus],
        identities: @escaping @Sendable () -> [IdentityStatus] = { [] },
        identityCalls: @escaping @Sendable () -> [IdentityCallFailure] = { [] },
        certificates: @escaping @Sendable () -> [CertificateStatus],
        isDraining: @escaping @Sendable () -> Bool = { false }, store: String, version: String, commit: String
    ) {
        self.config = config
        self.routes = routes
        self.upstreams = upstreams
        self.identities = identities
        self.identityCalls = identityCalls
        self.certificates = certificates
        self.isDraining = isDraining
        self.store = store
        self.version = version
        self.commit = commit
    }
}
