import CloakroomCore
import CloakroomTelemetry
import TestSupport
import Testing

@testable import CloakroomAdmin

@Suite("Alerts for the operator")
struct StatusAlertTests {
    private var made = SampleStatus()

    @Test("A healthy gateway has no alerts")
    func none() {
        made.served(100)
        made.sent(100)
        made.count("cloakroom_sign_ins_total", [("outcome", "rejected")], 50)
        expect(empty: made.document([ReadinessCheck(name: "listening", isReady: true)]).alerts)
    }

    @Test("A pause of accepting is an alert with the cause")
    func acceptPauses() {
        let metrics = GatewayMetrics(registry: made.registry).listeners
        expect(made.document().connections == nil)
        metrics.limit.set(20_000)
        expect(empty: made.document().alerts)
        metrics.add(2, .active)
        metrics.add(3, .idle)
        metrics.acceptPaused(.limit)
        let document = made.document()
        expect(document.connections?.open, equals: 5)
        expect(document.connections?.active, equals: 2)
        expect(document.alerts.map(\.kind), equals: [.connections])
        expect(document.alerts.map(\.severity), equals: [.critical])
        expect(document.alerts.first?.text.contains("(limits.connections)"), equals: true)
        metrics.acceptResumed()
        expect(made.document().alerts.map(\.severity), equals: [.warning])
    }

    @Test("A pause of accepting stays an alert while it lasts, however long ago it began")
    func lastingPause() {
        let metrics = GatewayMetrics(registry: made.registry).listeners
        metrics.limit.set(20_000)
        metrics.acceptPaused(.limit)
        let start = ContinuousClock.now
        let reporter = StatusReporter(
            source: made.source, registry: made.registry, startedAt: SampleStatus.now, instant: start)
        reporter.takeSample(at: start + .seconds(10))
        func alerts() -> [StatusAlert] {
            reporter.document(
                readiness: ReadinessReport(checks: []), now: SampleStatus.now + .seconds(900),
                instant: start + .seconds(900)
            ).alerts
        }
        expect(alerts().map(\.severity), equals: [.critical])
        expect(alerts().first?.text.contains("(limits.connections)"), equals: true)
        metrics.acceptResumed()
        expect(empty: alerts())
    }

    @Test("Problems that stop traffic are listed before those that might")
    func order() {
        var made = made
        made.config.lastReload = .init(time: SampleStatus.now, problems: ["cloakroom.yaml:1:1: no"])
        made.upstreams = [UpstreamStatus(name: "api", targets: [.init(address: "x", circuit: .open)])]
        let failing = ReadinessCheck(name: "session store", isReady: false, detail: "it is unreachable")
        let alerts = made.document([failing]).alerts
        expect(alerts.map(\.kind), equals: [.notReady, .upstream, .reloadFailed])
        expect(alerts.map(\.severity), equals: [.critical, .critical, .warning])
        expect(alerts.first?.text, equals: "The readiness check “session store” failed: it is unreachable.")
    }

    @Test("An upstream causes an alert for each condition that an operator has to know")
    func upstream() {
        var made = made
        func target(_ condition: TargetCondition) -> UpstreamStatus.Target {
            .init(address: "x", circuit: .closed, condition: condition)
        }
        func texts(_ upstream: UpstreamStatus) -> [String] {
            made.upstreams = [upstream]
            return made.document().alerts.map { "\($0.severity): \($0.text)" }
        }
        expect(texts(UpstreamStatus(name: "api", targets: [target(.up), target(.draining)])), equals: [])
        expect(
            texts(UpstreamStatus(name: "api", targets: [target(.up), target(.ejected)])),
            equals: [
                "warning: Some targets of the upstream “api” are not usable."
            ])
        expect(
            texts(UpstreamStatus(name: "api", targets: [target(.up), target(.ejected), target(.down)])),
            equals: [
                "warning: Less than half of the targets of the upstream “api” are usable."
            ])
        expect(
            texts(
                UpstreamStatus(
                    name: "api", targets: [target(.up)], isPanicking: true, isRetryBudgetSpent: true,
                    staleNames: ["a.test"])),
            equals: [
                "critical: No target of the upstream “api” is usable: all are used.",
                "warning: The retry budget of the upstream “api” is spent. Failed requests are not sent again.",
                "warning: The host name a.test of the upstream “api” cannot be resolved. Its previous addresses are"
                    + " used.",
            ])
    }

    @Test("An upstream that is down is the headline, with its unresolved names, without what fails because of it")
    func oneCause() {
        var made = made
        let failure = FailureStatus(time: SampleStatus.now, reason: "connection refused")
        func target(_ condition: TargetCondition, _ failure: FailureStatus? = nil) -> UpstreamStatus.Target {
            .init(address: "x", circuit: .open, condition: condition, lastFailure: failure)
        }
        var api = UpstreamStatus(
            name: "api", targets: [target(.backingOff, failure)], isPanicking: true, isRetryBudgetSpent: true,
            staleNames: ["a.test"])
        api.routes = ["episodes"]
        api.signsUsersIn = true
        made.upstreams = [api]
        made.served(10, status: 502)
        made.served(10, route: "other", status: 502)
        made.gauge("cloakroom_upstream_pending_requests", [("upstream", "api")], 1)
        made.count("cloakroom_sign_ins_total", [("outcome", "upstream_error")], 1)
        made.registry.histogram(
            "cloakroom_sign_in_duration_seconds", help: "Sign-ins.", labels: [("outcome", "upstream_error")]
        ).record(nanoseconds: 1)
        let document = made.document()
        expect(document.headline, equals: "The upstream “api” is unreachable: connection refused")
        expect(
            document.alerts.map(\.text),
            equals: [
                "The upstream “api” is unreachable: connection refused.",
                "The host name a.test of the upstream “api” cannot be resolved. Its previous addresses are used.",
                "100\u{202F}% of the requests of the route “other” failed.",
            ])
        made.upstreams = [UpstreamStatus(name: "api", targets: [target(.ejected), target(.down)], isPanicking: true)]
        expect(made.document().alerts.first?.text, equals: "No target of the upstream “api” is usable: all are used.")
    }

    @Test("An upstream that is down explains failed refreshes, unless those of a provider can be among them")
    func failedRefreshes() {
        var made = made
        var api = UpstreamStatus(
            name: "api", targets: [.init(address: "x", circuit: .open, condition: .backingOff)])
        api.signsUsersIn = true
        made.upstreams = [api]
        let name = "cloakroom_token_refresh_duration_seconds"
        made.registry.histogram(name, help: name, labels: [("outcome", "transient")]).record(nanoseconds: 1)
        made.count("cloakroom_token_refreshes_total", [("outcome", "transient")], 1)
        expect(made.document().alerts.map(\.kind), equals: [.upstream])
        made.identities = [IdentityStatus(name: "company", issuer: "https://id.test", condition: .up)]
        expect(made.document().alerts.map(\.kind), equals: [.upstream, .refreshes])
    }

    @Test("The headline is the worst that is true: the state, unless an alert is critical")
    func headline() {
        var made = made
        expect(made.document().headline, equals: "Serving traffic")
        made.config.lastReload = .init(time: SampleStatus.now, problems: ["no"])
        expect(made.document().headline, equals: "Serving traffic")
        made.identities = [IdentityStatus(name: "company", issuer: "https://id.test", condition: .down)]
        expect(made.document().headline, equals: "Users cannot sign in at the provider “company”")
        expect(made.document([ReadinessCheck(name: "listening", isReady: false)]).headline, equals: "Not ready")
        made.isDraining = true
        expect(made.document().headline, equals: "Draining")
    }

    @Test("A provider that is down has no second alert for the logins that failed")
    func failedLogins() {
        var made = made
        made.identities = [IdentityStatus(name: "company", issuer: "https://id.test", condition: .down)]
        made.count("cloakroom_logins_total", [("identity", "company"), ("outcome", "unavailable")], 3)
        expect(made.document().alerts.map(\.text), equals: ["Users cannot sign in at the provider “company”."])
    }

    @Test("A provider causes an alert for its condition, its mismatches and its failed logins")
    func identity() {
        var made = made
        func texts(_ identity: IdentityStatus) -> [String] {
            made.identities = [identity]
            return made.document().alerts.map { "\($0.kind) \($0.severity): \($0.text)" }
        }
        var company = IdentityStatus(name: "company", issuer: "https://id.test", condition: .up)
        company.lastFailure = .init(time: SampleStatus.now, reason: "the keys cannot be fetched", remedy: "check")
        expect(texts(company), equals: [])
        company.condition = .stale
        expect(
            texts(company),
            equals: [
                "identity warning: The provider “company” cannot be reached: the keys cannot be fetched."
                    + " Its earlier keys are used."
            ])
        company.condition = .down
        company.findings = ["it does not support PKCE with S256 (enable it)"]
        expect(
            texts(company),
            equals: [
                "identity critical: Users cannot sign in at the provider “company”: the keys cannot be fetched.",
                "identity warning: The provider “company”: it does not support PKCE with S256 (enable it).",
            ])
        for outcome in ["success", "denied", "expired", "failed", "store_error"] {
            made.count("cloakroom_logins_total", [("identity", "company"), ("outcome", outcome)], 1)
        }
        expect(
            texts(IdentityStatus(name: "company", issuer: "https://id.test", condition: .up)),
            equals: [
                "identity warning: 2 logins at the provider “company” failed because of a server-side error."
            ])
    }

    @Test("A successful reload causes no alert")
    func reload() {
        var made = made
        made.config.lastReload = .init(time: SampleStatus.now)
        expect(empty: made.document().alerts)
    }

    @Test(
        "A certificate causes an alert less than fourteen days before its expiry",
        arguments: [(20, nil), (14, nil), (13, StatusAlert.Severity.warning), (0, .critical), (-1, .critical)])
    func certificate(days: Int, severity: StatusAlert.Severity?) {
        var made = made
        made.certificates = [
            CertificateStatus(
                listener: "l", file: "f", names: ["localhost"],
                notAfter: SampleStatus.now + .seconds(days * 86_400 + 60))
        ]
        expect(made.document().alerts.first?.severity, equals: severity)
    }

    @Test("A route causes an alert if at least one in twenty of its requests failed")
    func route() {
        made.served(96)
        made.served(4, status: 500)
        expect(empty: made.document().alerts)
        made.served(4, status: 502)
        expect(made.document().alerts.map(\.kind), equals: [.route])
    }

    @Test("The store causes an alert if it is down and no check reports it")
    func store() {
        made.gauge("cloakroom_session_store_up", [("backend", "sqlite")], 0)
        expect(made.document().alerts.map(\.kind), equals: [.store])
        let failing = ReadinessCheck(name: "session store", isReady: false)
        expect(made.document([failing]).alerts.map(\.kind), equals: [.notReady])
    }

    @Test("Sign-ins and refreshes cause an alert if the upstream rejects the gateway's own requests")
    func misconfigured() {
        for (counter, histogram) in [
            ("cloakroom_sign_ins_total", "cloakroom_sign_in_duration_seconds"),
            ("cloakroom_token_refreshes_total", "cloakroom_token_refresh_duration_seconds"),
        ] {
            made.registry.histogram(histogram, help: histogram, labels: [("outcome", "misconfigured")])
                .record(nanoseconds: 1)
            made.count(counter, [("outcome", "misconfigured")], 1)
        }
        expect(made.document().alerts.map(\.kind), equals: [.signIns, .refreshes])
    }

    @Test("Sign-ins, refreshes and telemetry that fail without the user's fault cause an alert, as do queued requests")
    func outcomes() {
        for (name, outcome) in [
            ("cloakroom_sign_in_duration_seconds", "upstream_error"),
            ("cloakroom_sign_in_duration_seconds", "rejected"),
            ("cloakroom_token_refresh_duration_seconds", "transient"),
        ] {
            made.registry.histogram(name, help: name, labels: [("outcome", outcome)]).record(nanoseconds: 1)
        }
        made.count("cloakroom_sign_ins_total", [("outcome", "upstream_error")], 1)
        made.count("cloakroom_sign_ins_total", [("outcome", "rejected")], 1)
        made.count("cloakroom_token_refreshes_total", [("outcome", "transient")], 1)
        made.count("cloakroom_telemetry_dropped_total", [("signal", "logs")], 3)
        made.gauge("cloakroom_upstream_pending_requests", [("upstream", "api")], 1)
        let alerts = made.document().alerts
        expect(alerts.map(\.kind), equals: [.upstream, .signIns, .refreshes, .telemetry])
        expect(alerts.map(\.severity).allSatisfy { $0 == .warning })
        expect(alerts.dropFirst().first?.text, equals: "1 sign-in failed because of a server-side error.")
    }
}
