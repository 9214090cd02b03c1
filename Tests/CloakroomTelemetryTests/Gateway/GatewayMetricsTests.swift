import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomTelemetry

@Suite("Gateway metrics")
struct GatewayMetricsTests {
    @Test("Outcomes known in advance are exposed as zero from the start")
    func zeros() {
        let metrics = GatewayMetrics(registry: PrometheusRegistry())
        let text = metrics.registry.text
        for outcome in [
            "success", "rejected", "invalid", "upstream_error", "throttled", "store_error", "misconfigured",
        ] {
            expect(text.contains("cloakroom_sign_ins_total{outcome=\"\(outcome)\"} 0\n"))
        }
        for kind in ["user", "everywhere", "admin"] {
            expect(text.contains("cloakroom_sign_outs_total{kind=\"\(kind)\"} 0\n"))
        }
        for outcome in ["success", "coalesced", "rejected", "transient", "lease_timeout"] {
            expect(text.contains("cloakroom_token_refreshes_total{outcome=\"\(outcome)\"} 0\n"))
            expect(text.contains("cloakroom_token_refresh_duration_seconds_count{outcome=\"\(outcome)\"} 0\n"))
        }
        expect(text.contains("cloakroom_sessions_created_total 0\n"))
        expect(!text.contains("cloakroom_sessions_active"), "only for a store that can count its sessions")
        for reason in ["expired_idle", "unreadable", "refresh_rejected"] {
            expect(text.contains("cloakroom_sessions_ended_total{reason=\"\(reason)\"} 0\n"))
        }
        for reason in UnauthorizedReason.allCases {
            expect(text.contains("cloakroom_unauthorized_responses_total{reason=\"\(reason.rawValue)\"} 0\n"))
        }
    }

    @Test("Recorded values are exposed under the documented names")
    func recording() {
        let metrics = GatewayMetrics(registry: PrometheusRegistry())
        metrics.record(.signIn(outcome: .success, accountHash: nil, duration: .milliseconds(30)))
        metrics.record(.signOutOthers([], by: SessionID(1), tokens: .revoking))
        metrics.sessionsCreated.increment()
        metrics.sessionsEnded[.revoked]?.increment(by: 3)
        metrics.sessionsActive().set(17)
        let upstream = metrics.upstream("api")
        upstream.idleConnections.add(2)
        upstream.pendingRequests.add(1)
        upstream.retries[.reset]?[.sent]?.increment()
        metrics.rejections(reason: "bad_host").increment()
        metrics.record(.tokenRefresh(.leaseTimeout, SessionID(1), duration: .seconds(2)))
        let store = metrics.sessionStore(
            backend: "valkey", operations: ["read", "insert"], reassertedKinds: ["end", "mark"])
        store.unconfirmed?.increment(by: 3)
        store.unconfirmedPrimary?.set(4.5)
        store.reasserted["end"]?.increment(by: 2)
        store.up.set(1)
        store.record(operation: "read", isSuccess: true, nanoseconds: 400_000)
        store.record(operation: "read", isSuccess: false, nanoseconds: 500_000_000)
        store.errors[.noAuth]?.increment()
        store.record(operation: "unheard of", isSuccess: true, nanoseconds: 1)
        metrics.setBuildInfo(version: "1.2.3", commit: "abc")
        let text = metrics.registry.text
        for line in [
            #"cloakroom_sign_ins_total{outcome="success"} 1"#,
            #"cloakroom_sign_in_duration_seconds_count{outcome="success"} 1"#,
            #"cloakroom_sign_outs_total{kind="everywhere"} 1"#,
            "cloakroom_sessions_created_total 1",
            #"cloakroom_sessions_ended_total{reason="revoked"} 3"#,
            "cloakroom_sessions_active 17",
            #"cloakroom_upstream_connections{state="idle",upstream="api"} 2"#,
            #"cloakroom_upstream_pending_requests{upstream="api"} 1"#,
            #"cloakroom_upstream_retries_total{outcome="sent",reason="reset",upstream="api"} 1"#,
            #"cloakroom_rejections_total{reason="bad_host"} 1"#,
            #"cloakroom_token_refreshes_total{outcome="lease_timeout"} 1"#,
            #"cloakroom_token_refresh_duration_seconds_sum{outcome="lease_timeout"} 2.0"#,
            #"cloakroom_session_store_up{backend="valkey"} 1"#,
            "cloakroom_session_store_operation_duration_seconds_count"
                + #"{backend="valkey",operation="read",outcome="success"} 1"#,
            "cloakroom_session_store_operation_duration_seconds_count"
                + #"{backend="valkey",operation="read",outcome="error"} 1"#,
            "cloakroom_session_store_operation_duration_seconds_count"
                + #"{backend="valkey",operation="insert",outcome="success"} 0"#,
            #"cloakroom_session_store_unconfirmed_writes_total{backend="valkey"} 3"#,
            #"cloakroom_session_store_primary_unconfirmed_seconds{backend="valkey"} 4.5"#,
            #"cloakroom_session_store_reasserted_total{backend="valkey",kind="end"} 2"#,
            #"cloakroom_session_store_reasserted_total{backend="valkey",kind="mark"} 0"#,
            #"cloakroom_session_store_errors_total{backend="valkey",reason="no_auth"} 1"#,
            #"cloakroom_session_store_errors_total{backend="valkey",reason="wrong_topology"} 0"#,
            #"cloakroom_build_info{commit="abc",version="1.2.3"} 1"#,
        ] {
            expect(text.contains(line + "\n"), "\(line)")
        }
        expect(!text.contains("unheard of"))
    }
}
