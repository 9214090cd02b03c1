import CloakroomCore
import CloakroomTelemetry
import TestSupport
import Testing

@testable import cloakroom

@Suite("The recorder of account events")
struct AccountEventRecorderTests {
    private let log = RecordedLog()
    private let telemetry = GatewayTelemetry()
    private static let origin = AuditContext(peer: "192.0.2.1", requestID: "0123")

    private var recorder: AccountEventRecorder {
        AccountEventRecorder(
            metrics: telemetry.metrics, audit: AuditLog(logger: log.logger), upstreams: ["api", "billing"])
    }

    private func counts(_ line: String) -> Bool {
        String(decoding: telemetry.registry.exposition(), as: UTF8.self).contains(line + "\n")
    }

    @Test("Logins and reported logouts are counted and logged by identity")
    func logins() {
        let recorder = recorder
        for event: AccountEvent in [
            .loginBegan(identity: "company"),
            .login(.success, identity: "company", reason: nil, accountHash: 7, duration: .milliseconds(20)),
            .login(.failed, identity: "company", reason: "wrong_nonce", accountHash: nil, duration: .zero),
            .providerLogout([SessionID(1), SessionID(2)], identity: "company"),
            .providerLogout([], identity: "company"),
            .providerLogoutFailed(identity: "company", reason: "wrong_issuer"),
            .providerLogoutFailed(identity: "company", reason: "store_unavailable"),
            .providerLogoutFailed(identity: "company", reason: "keys_unavailable"),
        ] {
            recorder.accountEvent(event, from: Self.origin)
        }
        for line in [
            #"cloakroom_logins_begun_total{identity="company"} 1"#,
            #"cloakroom_logins_total{identity="company",outcome="success"} 1"#,
            #"cloakroom_logins_total{identity="company",outcome="failed"} 1"#,
            #"cloakroom_login_duration_seconds_count{outcome="success"} 1"#,
            #"cloakroom_provider_logouts_total{identity="company",outcome="success"} 1"#,
            #"cloakroom_provider_logouts_total{identity="company",outcome="no_session"} 1"#,
            #"cloakroom_provider_logouts_total{identity="company",outcome="rejected"} 1"#,
            #"cloakroom_provider_logouts_total{identity="company",outcome="unavailable"} 2"#,
            #"cloakroom_sign_outs_total{kind="provider"} 1"#,
        ] {
            expect(counts(line), "\(line)")
        }
        // A redirect is not an event of the log, and failed logouts are limited.
        expect(
            log.all.map { $0["event"] },
            equals: [
                "login", "login", "provider_logout", "provider_logout", "provider_logout_failed",
            ])
        expect(log.all.allSatisfy { $0["identity"] == "company" && $0["peer"] == "192.0.2.1" })
        expect(log.all[0]["user"], equals: "0000000000000007")
        expect(log.all[2]["count"], equals: "2")
    }

    @Test("Sessions of apps are counted by app, once they are created")
    func apps() {
        var origin = Self.origin
        origin.app = "shop"
        for event: AccountEvent in [
            .signIn(outcome: .success, accountHash: 7, duration: .zero),
            .signIn(outcome: .rejected, accountHash: 7, duration: .zero),
            .login(.success, identity: "company", reason: nil, accountHash: 7, duration: .zero),
        ] {
            recorder.accountEvent(event, from: origin)
            recorder.accountEvent(event, from: Self.origin)
        }
        expect(counts(#"cloakroom_app_sessions_created_total{app="shop"} 2"#))
    }

    @Test("Failed logins, which any client can cause, are all counted, and logged 10 times per 10 s and outcome")
    func failedLogins() {
        let recorder = recorder
        for _ in 0..<100 {
            for (outcome, reason): (AccountEvent.LoginOutcome, String) in [
                (.expired, "no_pending_login"), (.invalid, "malformed_callback"),
            ] {
                recorder.accountEvent(
                    .login(outcome, identity: "company", reason: reason, accountHash: nil, duration: .zero),
                    from: Self.origin)
            }
        }
        recorder.accountEvent(
            .login(.failed, identity: "company", reason: "wrong_nonce", accountHash: nil, duration: .zero),
            from: Self.origin)
        expect(counts(#"cloakroom_logins_total{identity="company",outcome="expired"} 100"#))
        expect(counts(#"cloakroom_logins_total{identity="company",outcome="invalid"} 100"#))
        // More of the first two kinds if the test takes longer than 10 s.
        expect((21...100).contains(log.all.count))
        expect(log.all.first?["outcome"], equals: "expired")
        expect(log.all.first?["hint"]?.contains("accounts.publicURL"), equals: true)
        expect(log.all.last?["hint"], equals: nil)
        expect(log.all.first?["suppressed"], equals: "0")
        expect(log.all.last?["outcome"], equals: "failed")
    }

    @Test("Rule 51: invalid and throttled sign-ins, which cost nothing, fill no log; all others have a line each")
    func cheapSignIns() {
        let recorder = recorder
        for outcome: AccountEvent.SignInOutcome in [.invalid, .throttled, .rejected, .success] {
            for _ in 0..<1_000 {
                recorder.accountEvent(
                    .signIn(outcome: outcome, accountHash: nil, duration: .zero), from: Self.origin)
            }
        }
        expect(counts(#"cloakroom_sign_ins_total{outcome="invalid"} 1000"#))
        let lines = Dictionary(grouping: log.all) { $0["outcome"] ?? "" }.mapValues(\.count)
        expect(lines["rejected"] == 1_000 && lines["success"] == 1_000)
        // More if the test takes longer than 10 s.
        for outcome in ["invalid", "throttled"] { expect((10...100).contains(lines[outcome] ?? 0), "\(outcome)") }
        expect(log.all.first?["suppressed"], equals: "0")
    }

    @Test("Exchanges are measured by the name of their upstream, and failures are logged")
    func exchanges() {
        let recorder = recorder
        for event: AccountEvent in [
            .tokenExchange(.success, SessionID(1), upstream: 1, duration: .milliseconds(20)),
            .tokenExchange(.rejected, SessionID(1), upstream: 1, duration: .milliseconds(20)),
            .tokenExchange(.success, SessionID(1), upstream: 2, duration: .milliseconds(20)),
        ] {
            recorder.accountEvent(event, from: AuditContext())
        }
        for line in [
            #"cloakroom_token_exchange_duration_seconds_count{outcome="success",upstream="billing"} 1"#,
            #"cloakroom_token_exchange_duration_seconds_count{outcome="rejected",upstream="billing"} 1"#,
        ] {
            expect(counts(line), "\(line)")
        }
        expect(log.all.map { $0["event"] }, equals: ["token_exchange_failed"])
        expect(log.all.map { $0["upstream"] }, equals: ["billing"])
    }
}
