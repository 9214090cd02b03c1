import CloakroomWire
import Foundation
import TestSupport
import Testing

@testable import CloakroomConfig
@testable import CloakroomCore

@Suite struct UpstreamPolicySectionsTests {
    private static let place = "[\"http://127.0.0.1:9000\"]"

    /// The first upstream with further keys, from line 6 and column 5.
    private static func fixture(_ keys: String) throws -> ConfigFixture {
        let lines = keys.split(separator: "\n", omittingEmptySubsequences: false).joined(separator: "\n    ")
        return try ConfigFixture(
            ConfigFixture.good.replacingOccurrences(of: place, with: "[\"https://a\", \"https://b\"]\n    \(lines)"))
    }

    private static func upstream(_ keys: String) throws -> UpstreamConfiguration {
        try fixture(keys).load().configuration.upstreams[0]
    }

    private static func warnings(_ keys: String) throws -> [String] {
        let fixture = try fixture(keys)
        return try fixture.load().warnings.map { $0.description.replacing(fixture.path + "/cloakroom.yaml:", with: "") }
    }

    @Test func withoutTheKeysThePoliciesAreTheDefaults() throws {
        let upstream = try ConfigFixture().load().configuration.upstreams[0]
        expect(
            upstream,
            equals: UpstreamConfiguration(
                name: "api", targets: upstream.targets, apiToken: APIToken(value: Secret("demo")),
                signIn: IdentityEndpointConfiguration(path: "/auth", credentials: .basic)))
        expect(upstream.health, equals: nil)
        expect(upstream.zone, equals: nil)
        expect(upstream.protocolVersion, equals: .http1)
        expect(upstream.dns, equals: DNSConfiguration(interval: .seconds(30), keep: .seconds(120)))
        expect(
            upstream.balance, equals: BalanceConfiguration(policy: .latency, slowStart: .zero))
        expect(
            upstream.eject,
            equals: EjectionConfiguration(
                consecutive: 5, share: 0.5, statuses: [502, 503, 504], time: .seconds(10)))
        expect(upstream.inFlight, equals: InFlightConfiguration(target: 0))
        expect(
            upstream.retry,
            equals: RetryConfiguration(
                statuses: [], methods: [.get, .head, .options], budget: 0.1, attemptTimeout: .zero))
        expect(upstream.retry.attempts, equals: 2)
        expect(upstream.retry.connectTargets, equals: 3)
        expect(upstream.pool.congestedAfter, equals: .milliseconds(500))
        expect(upstream.pool.congestedTimeout, equals: .milliseconds(50))
        expect(upstream.pool.streams, equals: 100)
        expect(upstream.pool.streamWindow, equals: 131_072)
    }

    @Test func theFieldOfTokensHasAnotherNameAndScheme() throws {
        try expect(Self.upstream("preserveHost: true").bearer, equals: BearerField())
        let own = try Self.upstream("bearer: { header: X-Auth-Token, scheme: \"\" }")
        expect(own.bearer.header == "X-Auth-Token" && own.bearer.prefix.isEmpty)
        expect(own.tokenHeaders, equals: ["X-API-TOKEN", "X-Auth-Token"])
        let scheme = try Self.upstream(
            "bearer: { header: authorization, scheme: Token }\nuser: { path: /me }\nrefresh: { path: /refresh }")
        expect(scheme.bearer.isAuthorization && scheme.bearer.prefix == "Token ")
        expect(scheme.user?.bearer == scheme.bearer && scheme.refresh?.bearer == scheme.bearer)
        let errors = try Self.fixture("bearer: { header: x-api-token, scheme: \"a b\" }").valueErrors()
        expect(errors.contains { $0.contains("upstreams.api.bearer.header: conflicts with X-API-TOKEN") }, "\(errors)")
        expect(errors.contains { $0.contains("upstreams.api.bearer.scheme: must be a token") }, "\(errors)")
        let reserved = try Self.fixture("bearer: { header: Cookie }").valueErrors()
        expect(reserved.contains { $0.contains("must be a field without a reserved meaning") }, "\(reserved)")
    }

    @Test func everyKeyCanBeSet() throws {
        let upstream = try Self.upstream(
            """
            zone: east
            protocol: auto
            dns: { interval: 5s, keep: 0s }
            balance: { policy: roundRobin, slowStart: 15m }
            health:
              path: /health
              interval: 500ms
              timeout: 100ms
              fall: 10
              statuses: [204, 300-399]
              port: 8081
              apiToken: true
            eject: { consecutive: 0, share: 1 }
            inFlight: { target: 7 }
            retry:
              attempts: 4
              statuses: [504, 502]
              methods: [PUT, DELETE]
              budget: 1
              attemptTimeout: 250ms
            pool: { streamWindow: 16MiB }
            """)
        expect(upstream.zone, equals: "east")
        expect(upstream.protocolVersion, equals: .auto)
        expect(upstream.dns, equals: DNSConfiguration(interval: .seconds(5), keep: .zero))
        expect(upstream.balance, equals: BalanceConfiguration(policy: .roundRobin, slowStart: .seconds(900)))
        expect(
            upstream.health,
            equals: HealthCheckConfiguration(
                probe: .http(path: "/health"), interval: .milliseconds(500), timeout: .milliseconds(100), fall: 10,
                statuses: [204...204, 300...399], port: 8081, apiToken: true))
        expect(upstream.eject, equals: EjectionConfiguration(consecutive: 0, share: 1))
        expect(upstream.inFlight, equals: InFlightConfiguration(target: 7))
        expect(
            upstream.retry,
            equals: RetryConfiguration(
                attempts: 4, statuses: [502, 504], methods: [.put, .delete], budget: 1,
                attemptTimeout: .milliseconds(250)))
        expect(upstream.retry.connectTargets, equals: 4)
        expect(upstream.pool.streamWindow, equals: 16_777_216)
    }

    @Test(arguments: [("\"\"", ""), ("package.v1.Service", "package.v1.Service")])
    func aGRPCServiceCanBeCheckedInsteadOfAPath(_ text: String, _ service: String) throws {
        let health = try Self.upstream("protocol: http2\nhealth: { grpc: \(text) }").health
        expect(health, equals: HealthCheckConfiguration(probe: .grpc(service: service)))
    }

    @Test(arguments: [("http://a", "http://a:80"), ("unix:/run/a.sock", "unix:/run/a.sock")])
    func aGRPCCheckNeedsHTTP2ForAllTargets(_ target: String, _ description: String) throws {
        let yaml = ConfigFixture.good.replacingOccurrences(
            of: Self.place,
            with: "[\"https://b\", \"\(target)\"]\n    protocol: auto\n    health: { grpc: a }")
        try expect(
            ConfigFixture(yaml).valueErrors(),
            equals: [
                "cloakroom.yaml:7:21: upstreams.api.health.grpc: requires HTTP/2, but protocol auto uses HTTP/1.1 for"
                    + " target \(description) (write upstreams.api.protocol: h2c, or https:// targets)"
            ])
        // A path is checked with the version that each target uses.
        try expect(ConfigFixture(yaml.replacing("grpc: a", with: "path: /")).valueErrors(), equals: [])
        try expect(Self.upstream("protocol: auto\nhealth: { grpc: a }").health?.probe, equals: .grpc(service: "a"))
    }

    @Test func defaultsFollowTheTimesThatTheyDependOn() throws {
        try expect(Self.upstream("health: { path: /, interval: 1s }").health?.timeout, equals: .seconds(1))
    }

    @Test(arguments: mistakes)
    func aMistakeIsReportedWithItsPlaceAndARemedy(_ keys: String, _ error: String) throws {
        try expect(Self.fixture(keys).valueErrors(), equals: ["cloakroom.yaml:" + error])
    }

    private static func range(_ text: String, _ range: String) -> String {
        "must be in the allowed range, not \(text) (write \(range))"
    }

    static let mistakes =
        ranges
        + pairs(
            #"""
            zone: ""
            → 6:11: upstreams.api.zone: must be a name, not "" (write at most 64 letters, digits, dots, hyphens and underscores, a letter or digit first)
            dns: { intervall: 5s }
            → 6:12: upstreams.api.dns.intervall: unknown key (did you mean "interval"?)
            balance: latency
            → 6:5: upstreams.api.balance: must be a section of keys, not one value (write its keys below it, indented)
            balance: { policy: random }
            → 6:24: upstreams.api.balance.policy: must be one of the allowed values, not "random" (write latency, requests or roundRobin)
            health: { interval: 1s }
            → 6:5: upstreams.api.health.path: required key missing (write it, or grpc)
            health: { path: health }
            → 6:21: upstreams.api.health.path: a path starts with a slash (write "/health")
            health: { path: /, timeout: 6s }
            → 6:33: upstreams.api.health.timeout: must be at most the interval 5s, not 6s (shorten it, or raise interval)
            health: { path: /, statuses: [] }
            → 6:34: upstreams.api.health.statuses: must not be empty (write at least one, such as 200-299)
            health: { path: /, statuses: [2xx] }
            → 6:35: upstreams.api.health.statuses.0: must be a status or a range of statuses, not "2xx" (write one such as 204 or 200-299)
            health: { path: /, statuses: [200-204-299] }
            → 6:35: upstreams.api.health.statuses.0: must be a status or a range of statuses, not "200-204-299" (write one such as 204 or 200-299)
            health: { path: /, statuses: [299-200] }
            → 6:35: upstreams.api.health.statuses.0: must be in the allowed range, not 299-200 (write 100 to 599, the lower status first)
            health: { path: /, statuses: [099] }
            → 6:35: upstreams.api.health.statuses.0: must be in the allowed range, not 099 (write 100 to 599, the lower status first)
            health: { path: /, statuses: [200-600] }
            → 6:35: upstreams.api.health.statuses.0: must be in the allowed range, not 200-600 (write 100 to 599, the lower status first)
            protocol: auto\nhealth: { grpc: "a b" }
            → 7:21: upstreams.api.health.grpc: must be the name of a gRPC service, not "a b" (write one such as package.Service, or "" for the whole server)
            health: { grpc: a }
            → 6:21: upstreams.api.health.grpc: requires HTTP/2, but upstream "api" has protocol http1 (write upstreams.api.protocol: http2)
            protocol: http2\nhealth: { grpc: a, path: / }
            → 7:30: upstreams.api.health.path: conflicts with grpc, which has its own request and result (keep one of the two)
            protocol: http2\nhealth: { grpc: a, statuses: [204] }
            → 7:34: upstreams.api.health.statuses: conflicts with grpc, which has its own request and result (keep one of the two)
            retry: { statuses: [500] }
            → 6:25: upstreams.api.retry.statuses.0: must be a status of a gateway or of overload, not "500" (write 502, 503 or 504)
            retry: { statuses: [503], budget: 0 }
            → 6:24: upstreams.api.retry.statuses: conflicts with budget 0: after an outage of all targets, each request would be sent twice (raise budget, or leave statuses out)
            retry: { methods: [PROPFIND] }
            → 6:24: upstreams.api.retry.methods.0: must be one of the allowed methods, not "PROPFIND" (write GET, HEAD, OPTIONS, PUT, DELETE, POST or PATCH)
            retry: { methods: [get] }
            → 6:24: upstreams.api.retry.methods.0: must be upper case, not "get" (write GET)
            """#)

    static let ranges: [(String, String)] = [
        ("dns: { interval: 999ms }", "6:22: upstreams.api.dns.interval: " + range("999ms", "1s to 1d")),
        ("dns: { keep: 25h }", "6:18: upstreams.api.dns.keep: " + range("25h", "0s to 1d")),
        ("balance: { slowStart: 16m }", "6:27: upstreams.api.balance.slowStart: " + range("16m", "0s to 15m")),
        (
            "health: { path: /, interval: 499ms }",
            "6:34: upstreams.api.health.interval: " + range("499ms", "500ms to 1h")
        ),
        ("health: { path: /, timeout: 0s }", "6:33: upstreams.api.health.timeout: " + range("0s", "1ms to 1h")),
        ("health: { path: /, fall: 11 }", "6:30: upstreams.api.health.fall: " + range("11", "1 to 10")),
        ("health: { path: /, port: 0 }", "6:30: upstreams.api.health.port: " + range("0", "1 to 65535")),
        ("eject: { consecutive: 101 }", "6:27: upstreams.api.eject.consecutive: " + range("101", "0 to 100")),
        ("eject: { share: 1.1 }", "6:21: upstreams.api.eject.share: " + range("1.1", "0.0 to 1.0")),
        (
            "inFlight: { target: 1000001 }",
            "6:25: upstreams.api.inFlight.target: " + range("1000001", "0 to 1000000")
        ),
        ("inFlight: { target: -1 }", "6:25: upstreams.api.inFlight.target: " + range("-1", "0 to 1000000")),
        ("retry: { attempts: 0 }", "6:24: upstreams.api.retry.attempts: " + range("0", "1 to 4")),
        ("retry: { attempts: 5 }", "6:24: upstreams.api.retry.attempts: " + range("5", "1 to 4")),
        ("retry: { budget: 1.01 }", "6:22: upstreams.api.retry.budget: " + range("1.01", "0.0 to 1.0")),
        ("retry: { attemptTimeout: 25h }", "6:30: upstreams.api.retry.attemptTimeout: " + range("25h", "0s to 1d")),
        ("pool: { streamWindow: 65535 }", "6:27: upstreams.api.pool.streamWindow: " + range("65535", "64KiB to 16MiB")),
    ]

    @Test func aCheckWithAnAPITokenNeedsOneOfTheUpstream() throws {
        let yaml = ConfigFixture.good.replacingOccurrences(
            of: ":9001\"]\n", with: ":9001\"]\n    health: { path: /, apiToken: true }\n")
        try expect(
            ConfigFixture(yaml).valueErrors(),
            equals: [
                "cloakroom.yaml:10:34: upstreams.other.health.apiToken: conflicts with the upstream, which has no"
                    + " apiToken (add upstreams.other.apiToken, or leave it out)"
            ])
    }

    @Test(
        arguments: pairs(
            #"""
            retry: { methods: [GET, POST] }
            → 6:29: warning: upstreams.api.retry.methods.1: POST is not idempotent: a retry can execute a request twice (leave it out unless all targets recognize repeated requests)
            retry: { attempts: 1, budget: 0.2 }
            → 6:35: warning: upstreams.api.retry.budget: has no effect with attempts 1 (raise attempts, or leave it out)
            pool: { streamWindow: 1MiB }
            → 6:27: warning: upstreams.api.pool.streamWindow: has no effect with protocol http1 (leave it out, or write protocol: http2, h2c or auto)
            """#))
    func whatHasNoEffectCausesAWarning(_ keys: String, _ warning: String) throws {
        try expect(Self.warnings(keys), equals: [warning])
    }

    @Test(arguments: [
        "balance: { policy: requests, slowStart: 1s }", "retry: { attempts: 1 }",
        "protocol: auto\npool: { streamWindow: 1MiB }",
        "retry: { methods: [PUT] }",
    ])
    func whatHasAnEffectCausesNone(_ keys: String) throws {
        try expect(Self.warnings(keys), equals: [])
    }
}
