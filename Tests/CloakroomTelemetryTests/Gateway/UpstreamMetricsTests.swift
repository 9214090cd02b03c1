import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomTelemetry

@Suite("Metrics of upstreams and their targets")
struct UpstreamMetricsTests {
    private let registry = PrometheusRegistry()
    private var metrics: GatewayMetrics { GatewayMetrics(registry: registry) }
    private var upstream: UpstreamMetrics { metrics.upstream("api", hasHTTP2: true) }

    private func lines(_ family: String) -> [String] {
        registry.text.split(separator: "\n").map(String.init).filter {
            $0.hasPrefix(family + "{")
        }
    }

    private func expose(_ expected: [String]) {
        let text = registry.text
        for line in expected { expect(text.contains("\n" + line + "\n"), "\(line)") }
    }

    @Test("Every series with labels known in advance is exposed with zero from the start")
    func zeros() {
        let upstream = upstream
        _ = upstream.target("http://a:80")
        _ = upstream.peer(nil, of: "http://a:80")
        expect(lines("cloakroom_upstream_retries_total").count, equals: 25)
        expect(lines("cloakroom_upstream_rejected_total").count, equals: 4)
        expect(lines("cloakroom_response_fields_removed_total").count, equals: 3)
        expect(lines("cloakroom_upstream_permits").count, equals: UpstreamPermitKind.allCases.count)
        expect(lines("cloakroom_upstream_ejections_total").count, equals: EjectionReason.allCases.count)
        expect(lines("cloakroom_upstream_checks_total").count, equals: 4)
        expect(lines("cloakroom_upstream_connects_total").count, equals: 5)
        expect(lines("cloakroom_upstream_http2_resets_total").count, equals: 30)
        expect(lines("cloakroom_slow_clients_total").count, equals: 4)
        expect(lines("cloakroom_client_cap_total").count, equals: 3)
        expose([
            #"cloakroom_upstream_panic{upstream="api"} 0"#,
            #"cloakroom_upstream_retry_budget{upstream="api"} 0"#,
            #"cloakroom_upstream_queue_seconds_count{upstream="api"} 0"#,
            #"cloakroom_upstream_in_flight{peer="",target="http://a:80",upstream="api"} 0"#,
        ])
    }

    @Test("Recorded values are exposed under the documented names")
    func recording() {
        let upstream = upstream
        upstream.setPanic(true)
        upstream.retryBudget.set(12)
        upstream.permits[.common]?.set(7)
        upstream.queueTime.record(nanoseconds: 20_000_000)
        upstream.rejections[.congested]?.increment()
        upstream.retries[.reset]?[.sent]?.increment()
        upstream.retries[.status]?[.noBudget]?.increment()
        let target = upstream.target("http://a:80")
        upstream.peer("10.0.0.1:80", of: "http://a:80").set(inFlight: 3, estimateMicroseconds: 1_500)
        target.ejections[.consecutive]?.increment()
        target.checks[.timeout]?.increment()
        target.connects[.tls]?.increment()
        upstream.activeConnections.add(4)
        upstream.replays.increment()
        var removed = RemovedResponseFields()
        removed.injectedValues = 2
        upstream.count(removed)
        let http2 = upstream.http2
        http2?.addStreams(5)
        http2?.addStreams(-2)
        http2?.countGoAway()
        http2?.countReset(code: 8, by: .gateway)
        http2?.countReset(code: .max, by: .target)
        http2?.countReset(code: 14, by: .target)
        let dns = upstream.dns(target: "http://a:80", interval: .milliseconds(1_500))
        dns.setAge(nanoseconds: 2_500_000_000)
        _ = metrics.clientLimits.slowClient(.download, .pressure, now: 0)
        metrics.clientLimits.rejected(.session)
        expose([
            #"cloakroom_upstream_panic{upstream="api"} 1"#,
            #"cloakroom_upstream_retry_budget{upstream="api"} 12"#,
            #"cloakroom_upstream_permits{kind="common",upstream="api"} 7"#,
            #"cloakroom_upstream_queue_seconds_count{upstream="api"} 1"#,
            #"cloakroom_upstream_rejected_total{cause="congested",upstream="api"} 1"#,
            #"cloakroom_upstream_retries_total{outcome="sent",reason="reset",upstream="api"} 1"#,
            #"cloakroom_upstream_retries_total{outcome="no_budget",reason="status",upstream="api"} 1"#,
            #"cloakroom_upstream_retries_total{outcome="sent",reason="rejected_token",upstream="api"} 1"#,
            #"cloakroom_upstream_connections{state="active",upstream="api"} 4"#,
            #"cloakroom_response_fields_removed_total{reason="injected_value",upstream="api"} 2"#,
            #"cloakroom_upstream_in_flight{peer="10.0.0.1:80",target="http://a:80",upstream="api"} 3"#,
            #"cloakroom_upstream_estimate_seconds{peer="10.0.0.1:80",target="http://a:80",upstream="api"} 0.0015"#,
            #"cloakroom_upstream_ejections_total{reason="consecutive",target="http://a:80",upstream="api"} 1"#,
            #"cloakroom_upstream_checks_total{outcome="timeout",target="http://a:80",upstream="api"} 1"#,
            #"cloakroom_upstream_connects_total{outcome="tls",target="http://a:80",upstream="api"} 1"#,
            #"cloakroom_upstream_http2_streams{upstream="api"} 3"#,
            #"cloakroom_upstream_http2_goaways_total{upstream="api"} 1"#,
            #"cloakroom_upstream_http2_resets_total{by="gateway",code="CANCEL",upstream="api"} 1"#,
            #"cloakroom_upstream_http2_resets_total{by="target",code="_OTHER",upstream="api"} 2"#,
            #"cloakroom_upstream_dns_age_seconds{target="http://a:80",upstream="api"} 2.5"#,
            #"cloakroom_upstream_dns_interval_seconds{target="http://a:80",upstream="api"} 1.5"#,
            #"cloakroom_slow_clients_total{cause="pressure",direction="download"} 1"#,
            #"cloakroom_client_cap_total{cap="session"} 1"#,
        ])
    }

    @Test("Exactly one of the six states of a target is exposed, and it is up at first")
    func states() {
        let target = upstream.peer(nil, of: "http://a:80")
        let shown = {
            TargetCondition.allCases.filter { condition in
                lines("cloakroom_upstream_state").contains {
                    $0.contains("state=\"\(condition.rawValue)\"") && $0.hasSuffix(" 1")
                }
            }
        }
        expect(lines("cloakroom_upstream_state").count, equals: 6)
        expect(shown(), equals: [.up])
        for condition in TargetCondition.allCases.reversed() {
            target.set(condition)
            expect(shown(), equals: [condition])
        }
        target.set(.ejected)
        _ = upstream.peer(nil, of: "http://a:80")
        expect(shown(), equals: [.ejected])
    }

    @Test("A peer that is withdrawn leaves no gauge, and the counters of its target stay until the target is withdrawn")
    func peers() {
        let target = upstream.target("http://a:80")
        let one = upstream.peer("10.0.0.1:80", of: "http://a:80")
        let other = upstream.peer("10.0.0.2:80", of: "http://a:80")
        target.ejections[.share]?.increment()
        one.unregister()
        expect(lines("cloakroom_upstream_in_flight").count, equals: 1)
        expect(lines("cloakroom_upstream_state").count, equals: 6)
        expect(lines("cloakroom_upstream_estimate_seconds").allSatisfy { $0.contains("10.0.0.2") })
        other.unregister()
        for family in ["in_flight", "estimate_seconds", "state"] {
            expect(lines("cloakroom_upstream_" + family), equals: [], "\(family)")
        }
        expose([#"cloakroom_upstream_ejections_total{reason="share",target="http://a:80",upstream="api"} 1"#])
        target.unregister()
        for family in ["ejections_total", "checks_total", "connects_total"] {
            expect(lines("cloakroom_upstream_" + family), equals: [], "\(family)")
        }
    }

    @Test("An upstream that is withdrawn leaves no series, and others keep theirs")
    func upstreams() {
        let upstream = upstream
        _ = metrics.upstream("other")
        upstream.unregister()
        let text = registry.text
        expect(!text.contains(#"upstream="api""#), "\(text)")
        expect(text.contains(#"cloakroom_upstream_panic{upstream="other"} 0"#))
        expect(!text.contains("cloakroom_upstream_http2"), "only for an upstream with HTTP/2")
    }

    @Test("At most 256 peers are exposed, and a withdrawn one makes room")
    func limit() {
        let limit = UpstreamPeerLimit()
        expect((0..<UpstreamPeerLimit.maxPeers).allSatisfy { _ in limit.acquire() })
        expect(!limit.acquire())
        expect(!limit.acquire())
        limit.release()
        expect(limit.acquire())
        expect(!limit.acquire())
    }

    @Test("Only a spent budget and missing targets are outcomes of their own of retries that were not sent")
    func outcomes() {
        let outcomes = Dictionary(grouping: RetryObstacle.allCases) { UpstreamRetryOutcome($0).rawValue }
        expect(outcomes["no_budget"], equals: [.noBudget])
        expect(outcomes["no_target"], equals: [.noTarget])
        expect(outcomes["not_replayable"]?.count, equals: RetryObstacle.allCases.count - 2)
    }

    @Test("The names of a host that is no longer configured are withdrawn")
    func dns() {
        let dns = upstream.dns(target: "http://a:80", interval: .seconds(30))
        expect(lines("cloakroom_upstream_dns_age_seconds").count, equals: 1)
        dns.unregister()
        expect(lines("cloakroom_upstream_dns_age_seconds"), equals: [])
        expect(lines("cloakroom_upstream_dns_interval_seconds"), equals: [])
    }
}
