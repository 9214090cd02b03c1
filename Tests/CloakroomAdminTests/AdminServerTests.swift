import AsyncHTTPClient
import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import CoreMetrics
import Foundation
import Logging
import NIOCore
import NIOHTTP1
import ServiceLifecycle
import TestSupport
import Testing

@testable import CloakroomAdmin

@Suite("Admin server")
struct AdminServerTests {
    private func serving(
        _ registry: PrometheusRegistry = PrometheusRegistry(), _ probes: [ReadinessProbe] = [],
        _ body: @Sendable (_ address: String) async throws -> Void
    ) async throws {
        try await RunningAdminServer.run(registry, probes, body)
    }

    private func send(_ method: HTTPMethod, _ url: String) async throws -> (HTTPClientResponse, Data) {
        try await RunningAdminServer.send(method, url)
    }

    @Test("/live responds with 200, whatever the checks report")
    func live() async throws {
        let failing = ReadinessProbe(name: "store") { false }
        try await serving(PrometheusRegistry(), [failing]) { address in
            let (response, _) = try await send(.GET, address + "/live")
            expect(response.status, equals: .ok)
        }
    }

    @Test("/ready responds with 200 and lists each check if all pass")
    func ready() async throws {
        let probes = ["listening", "store"].map { ReadinessProbe(name: $0) { true } }
        try await serving(PrometheusRegistry(), probes) { address in
            let (response, body) = try await send(.GET, address + "/ready")
            expect(response.status, equals: .ok)
            expect(response.headers.first(name: "content-type"), equals: "application/json")
            let expected = #"{"checks":[{"name":"listening","ready":true},{"name":"store","ready":true}],"ready":true}"#
            expect(String(decoding: body, as: UTF8.self), equals: expected)
        }
    }

    @Test("/ready responds with 503 and names the check that fails")
    func notReady() async throws {
        let probes = [
            ReadinessProbe(name: "listening", failure: "not bound") { true },
            ReadinessProbe(name: "draining", failure: "shutting down") { false },
        ]
        try await serving(PrometheusRegistry(), probes) { address in
            let (response, body) = try await send(.GET, address + "/ready")
            expect(response.status, equals: .serviceUnavailable)
            let text = String(decoding: body, as: UTF8.self)
            expect(text.hasPrefix(#"{"checks":[{"name":"listening","ready":true},{"detail":"shutting down","#))
            expect(text.contains(#"{"detail":"shutting down","name":"draining","ready":false}"#))
            expect(text.hasSuffix(#""ready":false}"#))
        }
    }

    @Test("Only the listed pages are served, only to GET and HEAD, and all forbid storing, sniffing and framing")
    func surface() async throws {
        try await serving { address in
            for path in ["/", "/metrics/", "/status", "/live/x", "//live", "/METRICS"] {
                let (response, _) = try await send(.GET, address + path)
                expect(response.status, equals: .notFound, "\(path)")
            }
            for method in [HTTPMethod.POST, .PUT, .DELETE, .OPTIONS] {
                let (response, _) = try await send(method, address + "/live")
                expect(response.status, equals: .methodNotAllowed)
                expect(response.headers.first(name: "allow"), equals: "GET, HEAD")
            }
            for path in ["/live", "/ready", "/metrics", "/nothing"] {
                let (response, _) = try await send(.GET, address + path)
                expect(response.headers.first(name: "cache-control"), equals: "no-store")
                expect(response.headers.first(name: "x-content-type-options"), equals: "nosniff")
                let policy = response.headers.first(name: "content-security-policy")
                expect(policy?.hasPrefix("default-src 'none'"), equals: true)
            }
        }
    }

    @Test("Shutdown ends idle connections at once, and the others after their response")
    func shutdown() async throws {
        let gate = Gate()
        let probe = ReadinessProbe(name: "store") {
            await gate.passed()
            return true
        }
        let (peers, sent) = AsyncStream.makeStream(of: RawPeer.self)
        try await serving(PrometheusRegistry(), [probe]) { address in
            let port = try require(URL(string: address)?.port)
            let idle = try await RawPeer.connect(port: port)
            idle.send("GET /live HTTP/1.1\r\n\r\n")
            try await expect(idle.head().hasPrefix("HTTP/1.1 200"))
            let busy = try await RawPeer.connect(port: port, allowsHalfClosure: false)
            busy.send("GET /ready HTTP/1.1\r\n\r\n")
            await gate.waitForArrival()
            sent.yield(busy)
            Task {
                try await idle.closed()
                gate.open()
            }
        }
        let busy = try await require(peers.first { _ in true })
        let response = String(buffer: try await busy.rest())
        expect(response.contains("\r\nConnection: close\r\n") && response.contains(#""checks":["#))
    }
}
