import Foundation
import TestSupport
import Testing

@testable import CloakroomConfig
@testable import CloakroomCore

@Suite struct UpstreamRulesTests {
    private static let route = "    requiresAuthorization: true\n"
    private static let target = "[\"http://127.0.0.1:9000\"]"

    @Test(arguments: mistakes)
    func aRouteThatItsUpstreamCannotServeIsRejected(_ example: DiagnosticCase) throws {
        let yaml = ConfigFixture.good.replacingOccurrences(of: Self.target, with: example.piece)
            .replacingOccurrences(of: Self.route, with: Self.route + example.change)
        try expect(ConfigFixture(yaml).valueErrors(), equals: example.valueErrors)
    }

    static let mistakes = DiagnosticCase.table(
        #"""
        ["http://a"]\n    protocol: h2c ⇒     websocket: true\n
        → 26:16: routes.1.websocket: conflicts with protocol h2c of upstream "api": WebSockets need HTTP/1.1 (write upstreams.api.protocol: http1, or name another upstream)
        ["http://a"] ⇒     grpc: true\n
        → 25:11: routes.1.grpc: a gRPC call is a POST (add POST to methods)
        → 25:11: routes.1.grpc: requires HTTP/2, but upstream "api" has protocol http1 (write upstreams.api.protocol: h2c)
        ["https://a"] ⇒     grpc: true\n    inFlight: 1000001\n
        → 25:11: routes.1.grpc: a gRPC call is a POST (add POST to methods)
        → 25:11: routes.1.grpc: requires HTTP/2, but upstream "api" has protocol http1 (write upstreams.api.protocol: http2)
        → 26:15: routes.1.inFlight: must be in the allowed range, not 1000001 (write 0 to 1000000)
        ["https://a", "http://b"]\n    protocol: auto ⇒     grpc: true\n
        → 26:11: routes.1.grpc: a gRPC call is a POST (add POST to methods)
        → 26:11: routes.1.grpc: requires HTTP/2, but protocol auto uses HTTP/1.1 for target http://b:80 (write upstreams.api.protocol: h2c, or https:// targets)
        ["https://a"]\n    protocol: auto ⇒     grpc: true\n    websocket: true\n
        → 26:11: routes.1.grpc: a gRPC call is a POST (add POST to methods)
        → 26:11: routes.1.grpc: conflicts with websocket (keep one of the two)
        ["https://a"] ⇒     deadline: 25h\n
        → 25:15: routes.1.deadline: must be in the allowed range, not 25h (write 0s to 1d)
        """#)

    @Test func aGRPCRouteOfAnUpstreamWithHTTP2IsAccepted() throws {
        let yaml = ConfigFixture.good.replacingOccurrences(of: Self.target, with: "[\"http://a\"]\n    protocol: h2c")
            .replacingOccurrences(
                of: "methods: [GET]\n    path: /videos/{id}",
                with: "methods: [POST]\n    path: /videos/{id}\n    grpc: true")
        let fixture = try ConfigFixture(yaml)
        let config = try fixture.load()
        expect(config.configuration.routes[1].grpc)
        expect(
            config.warnings.map { $0.description.replacing(fixture.path + "/", with: "") },
            equals: [
                "cloakroom.yaml:24:11: warning: routes.1.grpc: clients need HTTP/2 for gRPC, but no listener supports"
                    + " it (write listeners.0.http2: true)"
            ])
        try expect(fixture.load(overrides: [("listeners.0.http2", "true")]).warnings, equals: [])
    }

    @Test func theKeysOfARouteAreRead() throws {
        let keys = "    inFlight: 7\n    deadline: 1m\n    retry: false\n    timed: false\n"
        let yaml = ConfigFixture.good.replacingOccurrences(of: Self.route, with: Self.route + keys)
        let routes = try ConfigFixture(yaml).load().configuration.routes
        expect(routes[1].inFlight, equals: 7)
        expect(routes[1].deadline, equals: .seconds(60))
        expect(!routes[1].retry)
        expect(!routes[1].timed)
        expect(!routes[1].grpc)
        expect((routes[0].inFlight, routes[0].deadline) == (0, .zero))
        expect((routes[0].retry, routes[0].timed, routes[0].grpc) == (true, true, false))
    }

    @Test func theLimitsForSlowClientsAreRead() throws {
        let limits = try ConfigFixture(
            ConfigFixture.good + """
                limits:
                  { requestBuffer: 0, requestBuffers: 16GiB, minimumRate: 1MiB, pressureRate: 16MiB,
                    inFlightPerAddress: 0, inFlightPerSession: 1000000 }

                """
        ).load().configuration.limits
        expect(
            limits,
            equals: LimitsConfiguration(
                requestBuffer: 0, requestBuffers: 17_179_869_184, minimumRate: 1_048_576,
                pressureRate: 16_777_216, inFlightPerAddress: 0, inFlightPerSession: 1_000_000))
        expect(
            LimitsConfiguration(),
            equals: LimitsConfiguration(
                requestBuffer: 16_384, requestBuffers: 67_108_864, minimumRate: 256, pressureRate: 16_384,
                inFlightPerAddress: 512, inFlightPerSession: 128))
    }

    @Test(
        arguments: pairs(
            #"""
            requestBuffer: 65KiB
            → 27:18: limits.requestBuffer: must be in the allowed range, not 65KiB (write 0 to 64KiB)
            requestBuffers: 17GiB
            → 27:19: limits.requestBuffers: must be in the allowed range, not 17GiB (write 0 to 16GiB)
            minimumRate: 2MiB
            → 27:16: limits.minimumRate: must be in the allowed range, not 2MiB (write 0 to 1MiB)
            pressureRate: 17MiB
            → 27:17: limits.pressureRate: must be in the allowed range, not 17MiB (write 0 to 16MiB)
            inFlightPerAddress: -1
            → 27:23: limits.inFlightPerAddress: must be in the allowed range, not -1 (write 0 to 1000000)
            inFlightPerSession: 1000001
            → 27:23: limits.inFlightPerSession: must be in the allowed range, not 1000001 (write 0 to 1000000)
            """#))
    func aLimitOutOfItsRangeIsRejected(_ key: String, _ error: String) throws {
        let valueErrors = try ConfigFixture(ConfigFixture.good + "limits:\n  \(key)\n").valueErrors()
        expect(valueErrors, equals: ["cloakroom.yaml:" + error])
    }

    @Test(
        arguments: pairs(
            #"""
            requestBuffers: 8KiB
            → 27:19: warning: limits.requestBuffers: 8KiB is less than one buffer of 16KiB: no body is buffered (raise it, or write 0 to disable buffers)
            pressureRate: 255
            → 27:17: warning: limits.pressureRate: 255 has no effect: slower clients are disconnected by minimumRate 256 (raise it, or write 0 to disable it)
            """#))
    func aLimitThatCannotWorkCausesAWarning(_ key: String, _ warning: String) throws {
        let fixture = try ConfigFixture(ConfigFixture.good + "limits:\n  \(key)\n")
        try expect(
            fixture.load().warnings.map { $0.description.replacing(fixture.path + "/", with: "") },
            equals: [
                "cloakroom.yaml:" + warning
            ])
    }

    @Test func aLimitOfZeroCausesNoWarning() throws {
        let yaml = ConfigFixture.good + "limits: { requestBuffers: 0, pressureRate: 0 }\n"
        try expect(ConfigFixture(yaml).load().warnings, equals: [])
    }

    @Test func manyTargetsForFewConnectionsCauseAWarningWithALine() throws {
        let yaml = ConfigFixture.good.replacingOccurrences(
            of: Self.target, with: "[\"http://a\", \"http://b\"]\n    pool: { maxConnections: 15 }")
        let fixture = try ConfigFixture(yaml)
        let config = try fixture.load()
        let find = { (loops: Int) in
            config.problems(UpstreamCapacityRules.findings(in: config.configuration, loops: loops)).map {
                $0.description.replacing(fixture.path + "/", with: "")
            }
        }
        expect(find(3), equals: [])
        expect(
            find(4),
            equals: [
                "cloakroom.yaml:6:29: warning: upstreams.api.pool.maxConnections: 15 connections are few for 2 targets"
                    + " and 4 event loops: connections are rarely reused (raise it to 16 or more, or lower eventLoops)"
            ])
    }

    @Test func anAttemptTimeoutThatIsLongerThanThatOfTheRouteCausesAWarning() throws {
        let yaml = ConfigFixture.good.replacingOccurrences(
            of: Self.target, with: "[\"http://a\"]\n    retry: { attemptTimeout: 30s }")
        let fixture = try ConfigFixture(yaml)
        let config = try fixture.load()
        expect(
            config.problems(UpstreamCapacityRules.findings(in: config.configuration, loops: 1)).map {
                $0.description.replacing(fixture.path + "/", with: "")
            },
            equals: [
                "cloakroom.yaml:6:30: warning: upstreams.api.retry.attemptTimeout: has no effect: the response head of"
                    + " all attempts has to arrive within 30s (shorten it, or raise responseHeadTimeout)"
            ])
        let raised = try fixture.load(overrides: [("routes.1.responseHeadTimeout", "31s")])
        expect(UpstreamCapacityRules.findings(in: raised.configuration, loops: 1), equals: [])
    }
}
