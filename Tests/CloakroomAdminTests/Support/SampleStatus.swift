import CloakroomCore
import CloakroomTelemetry

@testable import CloakroomAdmin

/// The status of a healthy gateway, with changes by each test.
struct SampleStatus: Sendable {
    static let now = WallTime(seconds: 1_800_000_000)

    var config = ConfigStatus(file: "cloakroom.yaml", hash: "0123456789ab", loadedAt: now - .seconds(600))
    var routes: [(name: String, serves: String)] = []
    var upstreams = [UpstreamStatus(name: "api", targets: [.init(address: "http://10.0.0.1:80", circuit: .closed)])]
    var identities: [IdentityStatus] = []
    var identityCalls: [IdentityCallFailure] = []
    var certificates: [CertificateStatus] = []
    var isDraining = false
    var store = "memory"
    let registry = PrometheusRegistry()

    var source: StatusDataSource {
        let isDraining = isDraining
        let (config, upstreams, identities, certificates) = (config, upstreams, identities, certificates)
        let (calls, routes) = (identityCalls, routes)
        return StatusDataSource(
            config: { config }, routes: { routes }, upstreams: { upstreams }, identities: { identities },
            identityCalls: { calls },
            certificates: { certificates },
            isDraining: { isDraining }, store: store, version: "1.2.3", commit: "abcdef0")
    }

    /// The document 10 s after the start.
    func document(_ checks: [ReadinessCheck] = []) -> StatusDocument {
        let start = ContinuousClock.now
        let reporter = StatusReporter(
            source: source, registry: registry, startedAt: Self.now - .seconds(10), instant: start)
        return reporter.document(
            readiness: ReadinessReport(checks: checks), now: Self.now, instant: start + .seconds(10))
    }

    func served(
        _ count: Int, route: String = "episodes", status: Int = 200, method: String = "GET", milliseconds: UInt64 = 8
    ) {
        let histogram = registry.histogram(
            "http_server_request_duration_seconds", help: "Served.",
            labels: [
                ("http_request_method", method), ("route", route), ("http_response_status_code", "\(status)"),
            ])
        for _ in 0..<count { histogram.record(nanoseconds: milliseconds * 1_000_000) }
    }

    func sent(_ count: Int, status: String = "200", error: String = "") {
        let histogram = registry.histogram(
            "http_client_request_duration_seconds", help: "Sent.",
            labels: [
                ("upstream", "api"), ("server_address", "10.0.0.1"), ("server_port", "80"),
                ("http_response_status_code", status), ("error_type", error),
            ])
        for _ in 0..<count { histogram.record(nanoseconds: 6_000_000) }
    }

    func count(_ name: String, _ labels: [(String, String)], _ count: Int64) {
        registry.counter(name, help: name, labels: labels).increment(by: count)
    }

    func gauge(_ name: String, _ labels: [(String, String)], _ value: Int64) {
        registry.gauge(name, help: name, labels: labels).set(value)
    }
}
