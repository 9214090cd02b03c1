import CloakroomCore
import CloakroomTelemetry

/// Creates the status document for each request, from the metrics and the status source.
struct StatusReporter: Sendable {
    let source: StatusDataSource
    let registry: PrometheusRegistry
    let history: StatusHistory
    let startedAt: Timestamp
    let startedInstant: ContinuousClock.Instant

    init(source: StatusDataSource, registry: PrometheusRegistry, startedAt: Timestamp, instant: ContinuousClock.Instant)
    {
        self.source = source
        self.registry = registry
        self.startedAt = startedAt
        startedInstant = instant
        history = StatusHistory(startedAt: instant)
    }

    /// Takes a sample for later rates.
    func takeSample(at now: ContinuousClock.Instant) {
        history.append(StatusSample(registry.recordedReading()), at: now)
    }

    /// Takes samples until its task is cancelled.
    func runSampling() async {
        while true {
            do { try await Task.sleep(for: StatusHistory.interval) } catch { return }
            takeSample(at: .now)
        }
    }

    /// The current status.
    func document(
        readiness: ReadinessReport, now: Timestamp, instant: ContinuousClock.Instant
    ) -> StatusDocument {
        let reading = registry.snapshot()
        let sample = StatusSample(reading)
        let window = history.window(to: sample, at: instant)
        let isDraining = source.isDraining()
        var document = StatusDocument(
            state: isDraining ? .draining : readiness.isReady ? .ready : .notReady,
            generatedAt: StatusFormatter.time(now), windowSeconds: (window.duration / .seconds(1)).rounded(places: 1),
            process: .init(
                version: source.version, commit: source.commit, startedAt: StatusFormatter.time(startedAt),
                uptimeSeconds: (instant - startedInstant).components.seconds),
            config: .init(source.config()), readiness: readiness.checks,
            traffic: .init(sample.routes.total, window.change.routes.total, window),
            routes: Self.routes(sample, window),
            upstreams: Self.upstreams(source.upstreams(), reading, sample, window, now: now),
            signIns: Self.outcomes(
                reading["cloakroom_sign_ins_total"].counts(by: "outcome"), window.change.signIns),
            sessions: Self.sessions(reading, store: source.store),
            refreshes: Self.outcomes(
                reading["cloakroom_token_refreshes_total"].counts(by: "outcome"), window.change.refreshes),
            store: Self.store(reading, kind: source.store, sample, window),
            certificates: Self.certificates(source.certificates(), now: now),
            telemetryDrops: Self.counts(sample.drops, window.change.drops),
            wireRejections: Self.counts(sample.rejections, window.change.rejections))
        document.alerts = StatusAlert.all(in: document)
        return document
    }
}
