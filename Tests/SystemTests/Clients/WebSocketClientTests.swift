import Foundation
import MockAPI
import TestSupport
import Testing

@testable import cloakroom_demo

/// A third-party WebSocket client and server, with the gateway between them.
@Suite("Python's websockets at both ends (RFC 6455)", .serialized, .timeLimit(.minutes(3)))
struct WebSocketClientTests {
    private func serving(
        hasTLS: Bool = false, _ body: (GatewayProcess, PythonWebSockets) async throws -> Void
    ) async throws {
        let python = try await PythonWebSockets()
        let certificate = try DemoCertificate()
        defer { certificate.remove() }
        let settings = MockAPISettings.withTwoUsers
        try await MockAPI.withServer(settings) { mock in
            try await python.serving(before: mock.baseURL) { address in
                var file = GatewayYAML(upstream: address, apiToken: settings.apiToken)
                file.hasChat = true
                if hasTLS { file.certificate = (certificate.certificateFile, certificate.keyFile) }
                try await GatewayProcess.running(file) { gateway in try await body(gateway, python) }
            }
        }
    }

    @Test("Texts, bytes, pings and closes of every size are forwarded, with and without TLS", arguments: [false, true])
    func talk(hasTLS: Bool) async throws {
        try await serving(hasTLS: hasTLS) { gateway, python in
            let address = try hasTLS ? require(gateway.tls) : gateway.clear
            try await python.connecting(to: address + "/lobby", .talk) { client in
                let ending = try await client.ending()
                expect(ending.status, equals: 0, "\(client.errors)")
                expect(client.lines, equals: ["connected chat nobody", "talked", "closed 1000"])
            }
        }
    }

    @Test("Rule 28: signing out closes the WebSocket with 1008, idle or busy", arguments: ["listen", "chatter"])
    func signOut(task: String) async throws {
        let task = try require(PythonWebSockets.Task(rawValue: task))
        try await serving { gateway, python in
            let browser = gateway.client
            _ = try await browser.signIn()
            let cookie = browser.cookie
            try await python.connecting(to: gateway.clear + "/chat", task, cookie: cookie) { client in
                _ = try await client.waits(for: "the connection") { $0.lines.isEmpty ? nil : true }
                try await expect(browser.send("DELETE", "/auth").status, equals: 204)
                let ending = try await client.ending()
                expect(ending.status, equals: 0, "\(client.errors)")
                expect(client.lines.last, equals: "closed 1008")
            }
        }
    }
}
