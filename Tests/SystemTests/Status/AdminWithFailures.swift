import CloakroomAdmin
import CloakroomCore
import CloakroomTelemetry
import Foundation
import Logging
import TestSupport

/// The admin listener of a simulated gateway that has every kind of problem.
enum AdminWithFailures {
    /// Serves on a free loopback port while `body` runs.
    static func running<R>(_ body: (_ address: String) async throws -> R) async throws -> R {
        let (ports, bound) = AsyncStream.makeStream(of: Int.self)
        let server = AdminServer(
            host: "127.0.0.1", port: 0, registry: registry(), probes: probes, status: source,
            now: { WallTime(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000)) },
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, onBound: { bound.yield($0) })
        return try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await server.run() }
            defer { tasks.cancelAll() }
            guard let port = await ports.first(where: { _ in true }) else { throw TimeoutError("it listens") }
            return try await body("http://127.0.0.1:\(port)")
        }
    }

    private static let hostileRoute = "<script>alert(4)</script>\"\u{301} onload='x' & \u{202E}\u{0}{{x}}"

    private static let probes = [
        ReadinessProbe(name: "listening") { true },
        ReadinessProbe(name: "session store", failure: "the valkey store cannot be used; see the log for the cause") {
            false
        },
    ]

    private static var source: StatusDataSource {
        let now = WallTime(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
        let problems = [
            "/etc/cloakroom/cloakroom.yaml:41:5: routes.2.upstream: unknown upstream “vidoes”: name one of api, videos",
            "/etc/cloakroom/cloakroom.yaml:58:18: session.idleTimeout: “15 minutes” is no duration: write 15m",
        ]
        return StatusDataSource(
            config: {
                ConfigStatus(
                    file: "/etc/cloakroom/cloakroom.yaml", hash: "9f86d081884c", loadedAt: now - .seconds(93_000),
                    lastReload: .init(time: now - .seconds(700), problems: problems))
            },
            upstreams: {
                [
                    UpstreamStatus(
                        name: "api",
                        targets: [
                            .init(address: "http://10.0.4.17:9000", circuit: .closed),
                            .init(
                                address: "http://10.0.4.18:9000", circuit: .open,
                                lastFailure: .init(
                                    time: now - .seconds(95), reason: "connect: connection refused (errno 111)")),
                        ]),
                    UpstreamStatus(
                        name: "videos",
                        targets: [
                            .init(
                                address: "https://videos.internal.example.com:8443", circuit: .halfOpen,
                                lastFailure: .init(
                                    time: now - .seconds(4),
                                    reason: "tls: <script>alert(1)</script> the certificate is not for this name"))
                        ]),
                ]
            },
            identities: {
                [
                    IdentityStatus(
                        name: "company", issuer: "https://id.example.com/<script>alert(2)</script>", condition: .down,
                        keys: 3, skippedKeys: 1, keysFetchedAt: now - .seconds(93_000),
                        findings: ["it signs with HS256 <script>alert(3)</script>"],
                        lastFailure: .init(
                            time: now - .seconds(7), reason: "the metadata names another issuer", remedy: "copy issuer")
                    )
                ]
            },
            identityCalls: { identityCalls(now) },
            certificates: {
                [
                    CertificateStatus(
                        listener: "0.0.0.0:8443", file: "/etc/cloakroom/tls.crt",
                        names: ["api.example.com", "www.example.com"], notAfter: now + .seconds(5 * 86_400 + 300)),
                    CertificateStatus(
                        listener: "0.0.0.0:9443", file: "/etc/cloakroom/old.crt", names: ["old.example.com"],
                        notAfter: now - .seconds(7_200)),
                ]
            }, store: "valkey", version: "0.1.0", commit: "4f2c91a")
    }

    /// The widest texts that a failed call may have.
    private static func identityCalls(_ now: WallTime) -> [IdentityCallFailure] {
        let members = (1...IdentityCallFailure.Defect.maxNames).map { "a_member_with_a_name_of_forty_characters\($0)" }
        var failures = [
            IdentityCallFailure(
                call: .signIn, source: .upstream("api"), method: "POST",
                server: "accounts-of-a-service.internal.example.com:8443", path: "/v2/sessions/of/users", status: 200,
                defect: .init("member_missing", key: "signIn.accessToken", expected: "access_token", found: members),
                nanoseconds: 48_000_000),
            IdentityCallFailure(
                call: .discovery, source: .identity("company"), method: "GET", server: "",
                path: "/.well-known/openid-configuration", defect: .init("unreachable"), nanoseconds: 5_000_000_000),
        ]
        failures[0].time = now - .seconds(31)
        failures[1].time = now - .seconds(3_700)
        return failures
    }

    /// Metrics with at least one sample of every family.
    private static func registry() -> PrometheusRegistry {
        let registry = PrometheusRegistry()
        let milliseconds: UInt64 = 1_000_000
        func requests(_ route: String, _ status: Int, _ count: Int, _ duration: UInt64) {
            let served = registry.histogram(
                "http_server_request_duration_seconds", help: "Served.",
                labels: [("route", route), ("http_response_status_code", "\(status)"), ("error_type", "")])
            let sent = registry.histogram(
                "http_client_request_duration_seconds", help: "Sent.",
                labels: [("upstream", route == "video" ? "videos" : "api"), ("http_response_status_code", "\(status)")])
            for index in 0..<count {
                served.record(nanoseconds: duration * milliseconds * UInt64(1 + index % 7) / 3)
                if status != 401 { sent.record(nanoseconds: duration * milliseconds * UInt64(1 + index % 7) / 4) }
            }
        }
        requests("episodes", 200, 4_210, 9)
        requests("video", 200, 1_130, 31)
        requests("video", 401, 87, 1)
        requests("video", 502, 140, 9_000)
        requests("user", 200, 312, 14)
        requests("artwork-of-an-episode-in-every-size-that-a-client-may-ask-for", 200, 44, 3)
        requests("(unmatched)", 404, 19, 1)
        // A quotation mark with an accent, a control character and a bidirectional control.
        requests(hostileRoute, 200, 2, 30)
        func counter(_ name: String, _ label: String, _ counts: [(String, Int64)]) {
            for (value, count) in counts {
                registry.counter(name, help: name, labels: [(label, value)]).increment(by: count)
            }
        }
        func durations(_ name: String, _ counts: [(String, Int64)], _ duration: UInt64) {
            for (value, count) in counts {
                let histogram = registry.histogram(name, help: name, labels: [("outcome", value)])
                for _ in 0..<count { histogram.record(nanoseconds: duration * milliseconds) }
            }
        }
        let signIns: [(String, Int64)] = [("success", 61), ("rejected", 9), ("throttled", 2), ("upstream_error", 4)]
        counter("cloakroom_sign_ins_total", "outcome", signIns)
        durations("cloakroom_sign_in_duration_seconds", signIns, 82)
        let refreshes: [(String, Int64)] = [("success", 512), ("coalesced", 77), ("rejected", 3), ("transient", 6)]
        counter("cloakroom_token_refreshes_total", "outcome", refreshes)
        durations("cloakroom_token_refresh_duration_seconds", refreshes, 48)
        counter("cloakroom_sessions_ended_total", "reason", [("signed_out", 22), ("expired_idle", 31), ("revoked", 0)])
        registry.counter("cloakroom_sessions_created_total", help: "Created.").increment(by: 61)
        counter("cloakroom_rejections_total", "reason", [("bad_host", 12), ("smuggling", 3), ("proxy_header", 0)])
        counter("cloakroom_telemetry_dropped_total", "signal", [("traces", 1_284), ("logs", 0)])
        counter("cloakroom_upstream_retries_total", "upstream", [("api", 7), ("videos", 51)])
        for (upstream, state, count) in [("api", "active", 12), ("api", "idle", 20), ("videos", "active", 64)] {
            registry.gauge(
                "cloakroom_upstream_connections", help: "Connections.",
                labels: [("upstream", upstream), ("state", state)]
            ).set(Int64(count))
        }
        registry.gauge("cloakroom_upstream_pending_requests", help: "Waiting.", labels: [("upstream", "videos")]).set(
            17)
        registry.gauge("cloakroom_session_store_up", help: "Up.", labels: [("backend", "valkey")]).set(0)
        for (operation, outcome, count) in [("find", "success", 900), ("find", "error", 41), ("save", "success", 130)] {
            let histogram = registry.histogram(
                "cloakroom_session_store_operation_duration_seconds", help: "Operations.",
                labels: [("operation", operation), ("outcome", outcome)])
            for _ in 0..<count { histogram.record(nanoseconds: 1_400_000) }
        }
        return registry
    }
}
