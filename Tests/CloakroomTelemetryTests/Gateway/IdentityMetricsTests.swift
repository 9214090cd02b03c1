import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomTelemetry

@Suite("Identity metrics")
struct IdentityMetricsTests {
    private let metrics = GatewayMetrics(registry: PrometheusRegistry())

    private var text: String { metrics.registry.text }

    @Test("Outcomes of a configured provider are exposed as zero from the start")
    func zeros() {
        metrics.identities.show(
            [IdentityStatus(name: "company", issuer: "https://id.test")], now: WallTime(seconds: 9))
        for outcome in AccountEvent.LoginOutcome.allCases {
            expect(text.contains("cloakroom_logins_total{identity=\"company\",outcome=\"\(outcome.rawValue)\"} 0\n"))
            expect(text.contains("cloakroom_login_duration_seconds_count{outcome=\"\(outcome.rawValue)\"} 0\n"))
        }
        for outcome in ["success", "no_session", "rejected", "unavailable"] {
            expect(text.contains("cloakroom_provider_logouts_total{identity=\"company\",outcome=\"\(outcome)\"} 0\n"))
        }
        for line in [
            #"cloakroom_logins_begun_total{identity="company"} 0"#, #"cloakroom_provider_up{identity="company"} 0"#,
            #"cloakroom_provider_keys{identity="company"} 0"#,
            #"cloakroom_provider_keys_age_seconds{identity="company"} 0"#,
            #"cloakroom_provider_fetches_total{document="keys",identity="company",outcome="failed"} 0"#,
            #"cloakroom_sign_outs_total{kind="provider"} 0"#,
        ] {
            expect(text.contains(line + "\n"), "\(line)")
        }
    }

    @Test("Recorded values are exposed under the documented names")
    func recording() {
        metrics.record(.loginBegan(identity: "company"))
        metrics.record(.providerLogout([], identity: "company"))
        metrics.identities["company"].fetches[.metadata]?[.invalid]?.increment()
        for identity in ["company", "other"] {
            metrics.record(
                .login(.stepUpFailed, identity: identity, reason: nil, accountHash: nil, duration: .milliseconds(20)))
        }
        var status = IdentityStatus(name: "company", issuer: "https://id.test", condition: .stale, keys: 3)
        status.keysFetchedAt = WallTime(seconds: 1_000)
        metrics.identities.show([status], now: WallTime(seconds: 1_090))
        for line in [
            #"cloakroom_logins_begun_total{identity="company"} 1"#,
            #"cloakroom_provider_logouts_total{identity="company",outcome="no_session"} 1"#,
            #"cloakroom_provider_fetches_total{document="metadata",identity="company",outcome="invalid"} 1"#,
            #"cloakroom_logins_total{identity="company",outcome="step_up_failed"} 1"#,
            #"cloakroom_login_duration_seconds_count{outcome="step_up_failed"} 2"#,
            #"cloakroom_provider_up{identity="company"} 1"#, #"cloakroom_provider_keys{identity="company"} 3"#,
            #"cloakroom_provider_keys_age_seconds{identity="company"} 90"#,
        ] {
            expect(text.contains(line + "\n"), "\(line)")
        }
    }

    @Test("A provider that is no longer configured is not reported as down")
    func removal() {
        let company = IdentityStatus(name: "company", issuer: "https://id.test")
        metrics.identities.show([company], now: WallTime(seconds: 1))
        expect(text.contains("cloakroom_provider_up{identity=\"company\"} 0\n"))
        metrics.identities.show([], now: WallTime(seconds: 1))
        expect(!text.contains("cloakroom_provider_up{identity=\"company\"}"))
        metrics.identities.show([company], now: WallTime(seconds: 1))
        expect(text.contains("cloakroom_provider_up{identity=\"company\"} 0\n"))
    }
}
