import CloakroomTelemetry
import NIOCore
import NIOPosix
import NIOSSL
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomProxy

@Suite("One health check of a target", .serialized)
struct HealthCheckTests {
    private static let ok: [ScriptedUpstream.Step] = [.request, .send(Reply.ok)]

    private func check(
        _ target: UpstreamTargetConfiguration, _ health: HealthCheckConfiguration = Self.health(),
        tls: UpstreamTLSConfiguration? = nil
    ) async throws -> HealthCheck.Outcome {
        let upstream = try require(GatewaySetup().targets(target, tls: tls).makeConfig().upstreams.first)
        let runtime = try require(upstream.targets.targets.targets.first)
        let eventLoop = MultiThreadedEventLoopGroup.singleton.any()
        return try await HealthCheck(health, of: upstream, runtime, on: eventLoop).run(runtime).get()
    }

    private static func health(timeout: Duration = .seconds(20)) -> HealthCheckConfiguration {
        HealthCheckConfiguration(probe: .http(path: "/health?full"), timeout: timeout)
    }

    private func isFailed(_ outcome: HealthCheck.Outcome, _ reason: String) -> Bool {
        if case .failed(let text) = outcome { text.contains(reason) } else { false }
    }

    @Test("Rule 66: sends one request without API token on a connection of its own, closed after the response head")
    func request() async throws {
        try await ScriptedUpstream.run([Self.ok]) { port, upstream in
            try await expect(check(.http("127.0.0.1", port)), equals: .status(200))
            let request = try await upstream.request()
            expect(request.line, equals: "GET /health?full HTTP/1.1")
            expect(request["Host"], equals: "127.0.0.1:\(port)")
            expect(request["User-Agent"], equals: "cloakroom-health")
            expect(request["Connection"], equals: "close")
            expect(request["X-API-TOKEN"], equals: nil)
            try await upstream.closed()
            expect(upstream.connections.count, equals: 1)
        }
    }

    @Test("Port and API token are those of the configuration")
    func settings() async throws {
        try await ScriptedUpstream.run([[.request, .send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")]]) {
            port, upstream in
            var health = Self.health()
            health.port = port
            health.apiToken = true
            try await expect(check(.http("127.0.0.1", 9), health), equals: .status(200))
            // The port also replaces that of a host name.
            try await expect(check(.http("localhost", 9), health), equals: .status(200))
            let request = try await upstream.request()
            expect(request.line, equals: "GET /health?full HTTP/1.1")
            expect(request["Host"], equals: "127.0.0.1:9")
            expect(request["X-API-TOKEN"], equals: Canary.apiToken)
        }
    }

    @Test("The status is that of the final response", arguments: [200, 204, 302, 404, 503])
    func status(_ status: Int) async throws {
        let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
        let script: [ScriptedUpstream.Step] = [.request, .send("\(interim)HTTP/1.1 \(status) \r\nX-A: b\r\n\r\n")]
        try await ScriptedUpstream.run([script]) { port, _ in
            let result = try await check(.http("127.0.0.1", port))
            expect(result, equals: .status(status))
        }
    }

    @Test("A target that does not respond in time has failed, and its connection is closed")
    func slow() async throws {
        try await ScriptedUpstream.run([[.request, .send("HTTP/1.1 200"), .wait(Gate())]]) { port, upstream in
            let start = ContinuousClock.now
            try await expect(
                check(.http("127.0.0.1", port), Self.health(timeout: .milliseconds(200))), equals: .timeout)
            #expect(ContinuousClock.now - start >= .milliseconds(200))
            try await upstream.closed()
        }
    }

    @Test("A target that closes the connection or sends no HTTP has failed")
    func invalid() async throws {
        let cases: [([ScriptedUpstream.Step], String)] = [
            ([.request, .close], "closed before a response"),
            ([.request, .send("HTTP/1.1 200 OK\r\nA:"), .close], "closed before a response"),
            ([.request, .send("SSH-2.0-OpenSSH_9.9\r\n")], "the response is invalid"),
            ([.request, .send("HTTP/1.1 200 OK\r\nA: " + String(repeating: "a", count: 20_000))], "the response"),
            ([.request, .send(String(repeating: "HTTP/1.1 103 Hints\r\n\r\n", count: 2_000))], "larger than 16384"),
        ]
        for (script, reason) in cases {
            try await ScriptedUpstream.run([script]) { port, upstream in
                let outcome = try await check(.http("127.0.0.1", port))
                expect(isFailed(outcome, reason), "\(outcome)")
                expect(outcome.metric(isPassed: false), equals: .failed)
                try await upstream.closed()
            }
        }
    }

    @Test("A target that cannot be connected to is unreachable")
    func unreachable() async throws {
        let rejecting = try await ScriptedServer.rejectingPort()
        let deaf = try await BlackholePort(.isDeaf)
        defer { deaf.release() }
        let cases: [(Int, Int64, String)] = [
            (rejecting, 20_000, "connection refused"), (deaf.port, 500, "the connection attempt timed out"),
        ]
        for (port, limit, reason) in cases {
            let outcome = try await check(.http("127.0.0.1", port), Self.health(timeout: .milliseconds(limit)))
            expect(outcome.description, equals: reason)
            expect(outcome.metric(isPassed: false), equals: .unreachable)
        }
    }

    @Test("Over TLS the certificate is verified before anything is sent")
    func tls() async throws {
        let directory = try CertificateFixture()
        let tls = UpstreamTLSConfiguration(caFile: directory.authorityFile)
        // The head and four times the limit of bytes in one write: the head alone decides.
        let large = "HTTP/1.1 200 OK\r\nContent-Length: 65536\r\n\r\n" + String(repeating: "b", count: 65_536)
        for (name, isValid) in [("localhost", true), ("other.test", false)] {
            let context = try directory.server(name, names: [name]).serverContext()
            try await ScriptedUpstream.run([[.request, .send(large)]], tls: context) { port, upstream in
                let outcome = try await check(.https("localhost", port), tls: tls)
                if isValid {
                    expect(outcome, equals: .status(200))
                } else {
                    expect(outcome.description, equals: "the certificate is not issued for this host")
                    expect(outcome.metric(isPassed: false), equals: .unreachable)
                }
                expect(upstream.requests.count, equals: (isValid ? 1 : 0))
            }
        }
    }

    @Test("Only a passed check is counted as one; other responses have failed")
    func outcomes() {
        expect(HealthCheck.Outcome.status(404).metric(isPassed: true), equals: .passed)
        expect(HealthCheck.Outcome.status(200).metric(isPassed: false), equals: .failed)
        expect(HealthCheck.Outcome.timeout.metric(isPassed: false), equals: .timeout)
        expect("\(HealthCheck.Outcome.status(404))", equals: "status 404")
    }
}
