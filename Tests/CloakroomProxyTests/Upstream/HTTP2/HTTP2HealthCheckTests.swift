import NIOCore
import NIOHPACK
import NIOHTTP2
import Synchronization
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomProxy

@Suite("Health checks over HTTP/2", .serialized)
struct HTTP2HealthCheckTests {
    private func outcomes(_ gateway: RunningGateway, _ outcome: String) async throws {
        try await eventually("checks that \(outcome)") {
            gateway.metrics.split(separator: "\n").contains {
                $0.hasPrefix("cloakroom_upstream_checks_total{") && $0.contains("outcome=\"\(outcome)\"")
                    && !$0.hasSuffix(" 0")
            }
        }
    }

    @Test("A gRPC check passes if the service is being served, and fails otherwise")
    func grpc() async throws {
        let message = Mutex<[UInt8]>([0, 0, 0, 0, 2, 8, 1])
        let trailers = Mutex([("grpc-status", "0")])
        let script: FrameServer.Script = { link, event in
            guard case .data(let id, _, ends: true) = event else { return }
            link.send(
                .headers(
                    id, HTTP2Fields([(":status", "200"), ("content-type", "application/grpc")]), ends: false),
                .data(id, message.withLock { $0 }), .headers(id, HTTP2Fields(trailers.withLock { $0 })))
        }
        try await GatewaySetup().configuration {
            $0.upstreams[0].health = HealthCheckConfiguration(
                probe: .grpc(service: "a.B"), interval: .milliseconds(500), timeout: .milliseconds(500), rise: 1,
                fall: 1)
        }
        .run(against: script) { gateway, server in
            try await outcomes(gateway, "passed")
            let request = try require(server.requests.first)
            expect(request.head.first(name: ":method"), equals: "POST")
            expect(request.head.first(name: ":path"), equals: "/grpc.health.v1.Health/Check")
            expect(request.head["te"], equals: ["trailers"])
            expect(request.body, equals: [0, 0, 0, 0, 5, 0x0a, 3, 0x61, 0x2e, 0x42])
            message.withLock { $0 = [0, 0, 0, 0, 2, 8, 2] }
            try await outcomes(gateway, "failed")
            // Each check has a connection of its own.
            try await eventually("the ends") { server.closedCount >= 2 }
        }
    }

    @Test("Rule 66: a check by path uses HTTP/2 too, with the API token if configured")
    func path() async throws {
        let script: FrameServer.Script = { link, event in
            guard case .headers(let id, let head, ends: true) = event else { return }
            link.respond(id, head["x-api-token"] == [Canary.apiToken] ? "200" : "503")
        }
        try await FrameServer.run(script: script) { port, server in
            let setup = GatewaySetup().http2Upstream(port) {
                $0.health = HealthCheckConfiguration(
                    probe: .http(path: "/health"), interval: .milliseconds(500),
                    timeout: .milliseconds(500), apiToken: true)
            }
            try await setup.run { gateway in
                try await outcomes(gateway, "passed")
                let head = try require(server.requests.first?.head)
                expect(head.first(name: ":path"), equals: "/health")
                expect(head.first(name: ":authority"), equals: "127.0.0.1:\(port)")
                let field = try require(head.first { $0.name == "x-api-token" })
                expect(field.indexable, equals: .neverIndexed)
            }
        }
    }

    @Test("Servers that respond with something else fail the check", arguments: ["reset", "trailers", "none", "http1"])
    func failures(kind: String) async throws {
        let script: FrameServer.Script = { link, event in
            switch (kind, event) {
            case ("http1", .opened): link.send(bytes: Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8))
            case ("reset", .data(let id, _, ends: true)): link.send(.reset(id, .internalError))
            case ("trailers", .data(let id, _, ends: true)):
                link.send(.headers(id, HTTP2Fields([(":status", "200"), ("grpc-status", "12")])))
            case ("none", .data(let id, _, ends: true)): link.respond(id)
            default: break
            }
        }
        try await FrameServer.run(script: script) { port, _ in
            let setup = GatewaySetup().http2Upstream(port) {
                $0.health = HealthCheckConfiguration(
                    probe: .grpc(service: ""), interval: .milliseconds(500), timeout: .milliseconds(500))
            }
            try await setup.run { gateway in try await outcomes(gateway, "failed") }
        }
    }
}
