import CloakroomCore
import CloakroomTelemetry
import Foundation
import TestSupport
import Testing

@testable import CloakroomAdmin

@Suite("Status document")
struct StatusReporterTests {
    private let made = SampleStatus()

    @Test("A route's series of all methods and statuses are summed; 5xx are failures and 401s are counted separately")
    func routes() throws {
        made.served(60)
        made.served(20, method: "HEAD")
        made.served(10, status: 401)
        made.served(10, status: 503)
        let route = try require(made.document().routes.first)
        expect(route.name, equals: "episodes")
        expect(route.requests.total, equals: 100)
        expect(route.requests.perSecond, equals: 10)
        expect(route.requests.errorShare, equals: 0.1)
        expect(route.requests.errorsTotal, equals: 10)
        expect(route.unauthorizedTotal, equals: 10)
        expect(route.unauthorizedRecent, equals: 10)
        // All in the bucket from 5 to 10 ms.
        expect(route.requests.latency?.p50Ms, equals: 7.5)
        expect(route.requests.latency?.p99Ms, equals: 9.95)
        expect(route.requests.latency?.atLeast, equals: nil)
    }

    @Test("The busiest route is first, and the traffic of all is summed")
    func order() {
        made.served(1, route: "b")
        made.served(9, route: "z")
        made.served(1, route: "a")
        let document = made.document()
        expect(document.routes.map(\.name), equals: ["z", "a", "b"])
        expect(document.traffic.total, equals: 11)
    }

    @Test("Routes of the configuration are listed before their first request, with what they serve")
    func unused() {
        made.served(1, route: "(unmatched)")
        made.served(1, route: "user")
        var made = made
        made.routes = [("user", "GET /user → api"), ("video", "GET /videos/{id} → api")]
        let routes = made.document().routes
        expect(routes.map(\.name), equals: ["(unmatched)", "user", "video"])
        expect(routes.map(\.serves), equals: [nil, "GET /user → api", "GET /videos/{id} → api"])
        expect(routes.last?.requests.total == 0 && routes.last?.requests.errorShare == nil)
    }

    @Test("A request beyond the last bucket has only a known lower bound")
    func beyond() {
        made.served(10, milliseconds: 12_000)
        let latency = made.document().traffic.latency
        expect(latency?.p50Ms, equals: 10_000)
        expect(latency?.atLeast, equals: ["p50_ms", "p95_ms", "p99_ms"])
    }

    @Test("A percentile of fewer requests than it needs is the upper bound of the longest one, and is marked")
    func tooFew() {
        made.served(1, milliseconds: 3)
        let one = made.document().traffic.latency
        expect(one?.p50Ms == 5 && one?.p99Ms == 5)
        expect(one?.tooFew, equals: ["p50_ms", "p95_ms", "p99_ms"])
        made.served(18, milliseconds: 8)
        expect(made.document().traffic.latency?.tooFew, equals: ["p95_ms", "p99_ms"])
        expect(made.document().traffic.latency?.p95Ms, equals: 10)
        made.served(1, milliseconds: 8)
        expect(made.document().traffic.latency?.tooFew, equals: ["p99_ms"])
        made.served(80, milliseconds: 8)
        expect(made.document().traffic.latency?.tooFew, equals: nil)
        // The buckets do not have the durations.
        expect(one?.samplesMs, equals: nil)
    }

    @Test("Without requests shares and percentiles are unknown, not zero")
    func unknown() {
        let traffic = made.document().traffic
        expect(traffic.perSecond, equals: 0)
        expect(traffic.errorShare, equals: nil)
        expect(traffic.latency == nil)
    }

    @Test("An upstream has its own numbers, and requests that failed without a response are failures")
    func upstreams() throws {
        made.sent(6)
        made.sent(1, status: "", error: "connect_failed")
        made.sent(1, status: "502", error: "502")
        for (upstream, state, count) in [("api", "active", 3), ("api", "idle", 5), ("other", "active", 70)] {
            made.gauge("cloakroom_upstream_connections", [("upstream", upstream), ("state", state)], Int64(count))
        }
        made.gauge("cloakroom_upstream_pending_requests", [("upstream", "api")], 2)
        made.count("cloakroom_upstream_retries_total", [("upstream", "api"), ("reason", "a")], 4)
        made.count("cloakroom_upstream_retries_total", [("upstream", "api"), ("reason", "b"), ("outcome", "sent")], 5)
        made.count(
            "cloakroom_upstream_retries_total",
            [("upstream", "api"), ("reason", "b"), ("outcome", "no_budget")], 100)
        let upstream = try require(made.document().upstreams.first)
        expect(upstream.requests.errorShare, equals: 0.25)
        expect(upstream.inFlight, equals: 3)
        expect(upstream.idle, equals: 5)
        expect(upstream.pending, equals: 2)
        expect(upstream.retriesTotal, equals: 9)
    }

    @Test(
        "An upstream is down if no target is reachable, and degraded if some are not",
        arguments: [
            ([CircuitState.closed, .closed], StatusDocument.Upstream.Health.healthy),
            ([.closed, .open], .degraded), ([.halfOpen, .open], .down), ([], .healthy),
        ])
    func health(circuits: [CircuitState], health: StatusDocument.Upstream.Health) {
        var made = made
        made.upstreams = [UpstreamStatus(name: "api", targets: circuits.map { .init(address: "x", circuit: $0) })]
        expect(made.document().upstreams.first?.health, equals: health)
    }

    @Test("A target has its state, the reason for it and the time until it ends")
    func targets() throws {
        var made = made
        made.upstreams = [
            UpstreamStatus(
                name: "api",
                targets: [
                    .init(
                        address: "http://api:80", peer: "10.0.0.1:80", circuit: .open, condition: .ejected,
                        reason: "5 failures in a row", until: SampleStatus.now + .seconds(7), inFlight: 3),
                    .init(
                        address: "http://api:80", peer: "10.0.0.2:80", circuit: .closed, condition: .draining,
                        until: SampleStatus.now - .seconds(1)),
                    .init(address: "http://10.0.0.3:80", circuit: .halfOpen),
                ])
        ]
        let targets = try require(made.document().upstreams.first).targets
        expect(targets.map(\.state), equals: ["ejected", "draining", "backing_off"])
        expect(targets.map(\.peer), equals: ["10.0.0.1:80", "10.0.0.2:80", nil])
        expect(targets.map(\.reason), equals: ["5 failures in a row", nil, nil])
        expect(targets.map(\.secondsLeft), equals: [7, 0, nil])
        expect(targets.map(\.inFlight), equals: [3, nil, nil])
        expect(targets.map { $0.until == nil }, equals: [false, false, true])
    }

    @Test(
        "Targets that are drained on purpose do not count for the health of an upstream",
        arguments: [
            ([TargetCondition.up, .draining], StatusDocument.Upstream.Health.healthy), ([.warming], .healthy),
            ([.up, .ejected], .degraded), ([.up, .down], .degraded), ([.backingOff, .draining], .down),
            ([.ejected, .down], .down),
        ])
    func health(conditions: [TargetCondition], health: StatusDocument.Upstream.Health) {
        var made = made
        made.upstreams = [
            UpstreamStatus(
                name: "api", targets: conditions.map { .init(address: "x", circuit: .closed, condition: $0) })
        ]
        expect(made.document().upstreams.first?.health, equals: health)
    }

    @Test("A provider has its condition, keys and last failure, and the numbers of its logins and logouts")
    func identities() throws {
        var made = made
        made.identities = [
            IdentityStatus(
                name: "company", issuer: "https://id.test", condition: .stale, keys: 2, skippedKeys: 1,
                keysFetchedAt: SampleStatus.now - .seconds(90),
                lastFailure: .init(time: SampleStatus.now - .seconds(7), reason: "r", remedy: "m")),
            IdentityStatus(name: "other", issuer: "https://other.test"),
        ]
        for (identity, outcome, count) in [
            ("company", "success", 5), ("company", "unavailable", 2), ("company", "denied", 1), ("other", "success", 4),
        ] {
            made.count("cloakroom_logins_total", [("identity", identity), ("outcome", outcome)], Int64(count))
        }
        for (outcome, count) in [("success", 3), ("no_session", 2), ("rejected", 100)] {
            made.count(
                "cloakroom_provider_logouts_total", [("identity", "company"), ("outcome", outcome)], Int64(count))
        }
        let identities = made.document().identities
        let company = try require(identities.first)
        expect(identities.map(\.name), equals: ["company", "other"])
        expect(identities.map(\.state), equals: ["stale", "down"])
        expect(identities.map(\.keysAgeSeconds), equals: [90, nil])
        expect((company.keys, company.skippedKeys) == (2, 1))
        expect((company.loginsTotal, company.loginsRecent, company.loginsFailedRecent) == (8, 8, 2))
        expect(company.logoutsTotal, equals: 5)
        expect(company.lastFailure?.secondsAgo, equals: 7)
        expect(company.findings, equals: nil)
    }

    @Test("Sessions that only the store's server could count are not counted")
    func sessions() {
        made.gauge("cloakroom_sessions_active", [], 12)
        made.count("cloakroom_sessions_ended_total", [("reason", "revoked")], 2)
        made.count("cloakroom_sessions_ended_total", [("reason", "expired_idle")], 3)
        expect(made.document().sessions.boundTotal == nil && made.document().sessions.apps == nil)
        for (app, count) in [("shop", 4), ("cli", 1)] {
            made.count("cloakroom_app_sessions_created_total", [("app", app)], Int64(count))
        }
        made.count("cloakroom_device_proofs_total", [("outcome", "bound")], 5)
        made.count("cloakroom_device_proofs_total", [("outcome", "repeated")], 6)
        expect(made.document().sessions.boundTotal, equals: 5)
        expect(made.document().sessions.apps?.map { "\($0.app) \($0.createdTotal)" }, equals: ["cli 1", "shop 4"])
        expect(made.document().sessions.active, equals: 12)
        expect(made.document().sessions.ended.map(\.reason), equals: ["expired_idle", "revoked"])
        var shared = made
        shared.store = "valkey"
        expect(shared.document().sessions.active, equals: nil)
    }

    @Test("Remaining days are rounded down, and the first certificate to expire is first")
    func certificates() {
        var made = made
        made.certificates = [(86_400 * 30, "far"), (-1, "gone"), (86_399, "today"), (86_400, "tomorrow")].map {
            CertificateStatus(listener: "l", file: $0.1, names: [], notAfter: SampleStatus.now + .seconds($0.0))
        }
        let document = made.document()
        expect(document.certificates.map(\.file), equals: ["gone", "today", "tomorrow", "far"])
        expect(document.certificates.map(\.daysLeft), equals: [-1, 0, 1, 30])
    }

    @Test("The draining state overrides a failing check")
    func state() {
        let failing = ReadinessCheck(name: "listening", isReady: false)
        expect(made.document().state, equals: .ready)
        expect(made.document([failing]).state, equals: .notReady)
        var draining = made
        draining.isDraining = true
        expect(draining.document([failing]).state, equals: .draining)
    }

    @Test("A 4xx of an upstream is no failure of the upstream, a lost connection is one")
    func clientErrors() throws {
        made.sent(7, status: "404", error: "404")
        made.sent(2, status: "", error: "upstream_reset")
        made.sent(1, status: "503", error: "503")
        let requests = try require(made.document().upstreams.first?.requests)
        expect(requests.total, equals: 10)
        expect(requests.errorsTotal, equals: 3)
    }

    @Test("Failed identity calls are listed; calls are not requests of clients to the upstream")
    func identityCalls() throws {
        var made = made
        made.sent(2)
        made.registry.histogram(
            "http_client_request_duration_seconds", help: "Sent.",
            labels: [("upstream", "api"), ("http_response_status_code", "500"), ("call", "sign_in")]
        ).record(nanoseconds: 1)
        made.identityCalls = [
            IdentityCallFailure(
                call: .user, source: .upstream("api"), method: "GET", server: "api.test:443", path: "/user",
                status: 404, defect: .init("not_found"), nanoseconds: 2_000_000)
        ]
        made.identityCalls[0].time = SampleStatus.now - .seconds(5)
        let document = made.document()
        let failure = try require(document.identityCallFailures.first)
        expect(failure.secondsAgo, equals: 5)
        expect(failure.call, equals: "user")
        expect(failure.upstream, equals: "api")
        expect(failure.status, equals: 404)
        expect(failure.durationMs, equals: 2)
        expect(failure.hint != nil)
        expect(failure.found, equals: nil)
        expect(document.upstreams.first?.requests.total, equals: 2)
    }

    @Test("Names in JSON are stable, in snake case and with their units")
    func json() throws {
        made.served(1, milliseconds: 12_000)
        var made = made
        made.config.lastReload = .init(time: SampleStatus.now, problems: ["no"])
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        let object = try JSONSerialization.jsonObject(with: encoder.encode(made.document()))
        let document = try require(object as? [String: Any])
        expect(
            Set(document.keys),
            equals: [
                "state", "headline", "concerns", "generated_at", "window_seconds", "process", "config", "readiness",
                "traffic", "routes", "upstreams", "identities", "sign_ins", "sessions", "refreshes", "store",
                "certificates",
                "telemetry_drops", "wire_rejections", "identity_call_failures", "recent_failures",
                "trends", "trends_not_kept",
            ])
        let process = try require(document["process"] as? [String: Any])
        expect(Set(process.keys), equals: ["version", "commit", "started_at", "uptime_seconds"])
        let config = try require(document["config"] as? [String: Any])
        expect(Set(config.keys), equals: ["file", "hash", "loaded_at", "last_reload"])
        let traffic = try require(document["traffic"] as? [String: Any])
        expect(Set(traffic.keys), equals: ["total", "recent", "per_second", "error_share", "errors_total", "latency"])
        let latency = try require(traffic["latency"] as? [String: Any])
        expect(Set(latency.keys), equals: ["p50_ms", "p95_ms", "p99_ms", "at_least", "too_few"])
    }
}
