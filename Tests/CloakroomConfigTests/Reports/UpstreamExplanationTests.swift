import CloakroomConfig
import CloakroomCore
import CloakroomWire
import TestSupport
import Testing

@Suite struct UpstreamExplanationTests {
    private static func lines(
        _ method: String = "GET", upstream: String, route: String = ""
    ) throws -> [String] {
        let keys = upstream.split(separator: "\n").map { "    \($0)\n" }.joined()
        let yaml = """
            listeners: [{ address: "127.0.0.1:0" }]
            session: { cookie: { secure: false } }
            upstreams:
              api:
            \(keys)
            routes:
              - { name: all, methods: [GET, POST, PUT], path: /*, requiresAuthorization: false\(route) }

            """
        return try ConfigFixture(yaml).report { CommandReport.explain($0, method: method, target: "/") }.rows
    }

    @Test func candidatesAreListedByTierWithTheirShares() throws {
        let lines = try Self.lines(
            upstream: """
                zone: east
                targets:
                  - { url: "http://10.0.0.3", tier: 1 }
                  - { url: "http://10.0.0.1", weight: 300, zone: east }
                  - { url: "http://10.0.0.2", zone: west }
                  - { url: "http://10.0.0.4", weight: 0 }
                  - { url: "http://api.test", weight: 100 }
                balance: { policy: requests, slowStart: 30s }
                """)
        expect(
            lines.filter { $0.hasPrefix("candidate:") },
            equals: [
                "candidate: http://10.0.0.1:80: weight 300 of 500; zone east",
                "candidate: http://10.0.0.2:80: weight 100 of 500; zone west, counts as twice as loaded",
                "candidate: http://10.0.0.4:80: drained (weight 0)",
                "candidate: http://api.test:80: weight 100 of 500; each address of the name is a candidate",
                "candidate: http://10.0.0.3:80: only if no target of a lower tier is usable (tier 1)",
            ])
        expect(
            lines.contains(
                "balance: of two random candidates the one with fewer requests in flight;"
                    + " a new target gets its full share after 30s"))
    }

    @Test func healthEjectionAndLimitsAreDescribed() throws {
        let lines = try Self.lines(
            upstream: """
                targets: ["https://10.0.0.1"]
                protocol: auto
                balance: { policy: roundRobin }
                health: { path: /health }
                eject: { share: 0 }
                inFlight: { target: 5 }
                """, route: ", inFlight: 3, deadline: 1m")
        expect(lines.contains("protocol: HTTP/2 if TLS negotiates it, otherwise HTTP/1.1"))
        expect(lines.contains("balance: the candidates in turn"))
        expect(
            lines.contains("health: GET /health every 5s, at most 2s each; down after 3 failed, up after 2 passed"))
        expect(
            lines.contains("ejection: after 5 failures in a row; for 10s, later up to 5m; at most 50 % of the targets"))
        expect(
            lines.contains(
                "limits: 3 in flight on this route, then 503;"
                    + " 5 in flight per target, then queued; 1m for all attempts and the response"))
    }

    @Test(arguments: [
        (
            "GET", "",
            "up to 2 after connect, up to 1 after refused, stale, reset; at most 10 % of all requests and 3 per second"
        ),
        ("POST", "", "up to 2 after connect, up to 1 after refused; at most 10 % of all requests and 3 per second"),
        (
            "PUT", "",
            "up to 2 after connect, up to 1 after refused, stale; at most 10 % of all requests and 3 per second"
        ),
        (
            "GET", "retry: { attempts: 3, statuses: [503], attemptTimeout: 1s, budget: 0.125 }",
            "up to 2 after connect, refused, stale, reset, 503, no response head in 1s; at most 12.5 % of all requests"
                + " and 3 per second"
        ),
        ("GET", "retry: { attempts: 1 }", "none"),
    ])
    func retriesAreThoseOfTheMethod(_ method: String, _ keys: String, _ retry: String) throws {
        let lines = try Self.lines(method, upstream: "targets: [\"http://10.0.0.1\"]\n" + keys)
        expect(lines.contains("retry: " + retry), "\(lines)")
    }

    @Test func aRouteCanDisableRetriesAndRestrictThemAsGRPC() throws {
        let plain =
            "targets: [\"http://10.0.0.1\"]\nprotocol: h2c\neject: { consecutive: 0, share: 0 }\n"
            + "health: { grpc: \"\" }"
        let disabled = try Self.lines(upstream: plain, route: ", retry: false")
        expect(disabled.contains("retry: none on this route"))
        expect(disabled.contains("ejection: none"))
        let grpc = try Self.lines(upstream: plain, route: ", grpc: true")
        expect(grpc.contains("protocol: HTTP/2 without TLS; gRPC"))
        expect(
            grpc.contains(
                "retry: up to 2 after connect, up to 1 after refused; at most 10 % of all requests and 3 per second"))
        expect(grpc.contains { $0.hasPrefix("health: gRPC health check every 5s") })
    }
}
