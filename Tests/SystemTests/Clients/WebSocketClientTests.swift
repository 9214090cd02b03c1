import Foundation
import MockAPI
import TestSupport
import Testing

@testable import cloakroom_demo

/// A third-party WebSocket client and server, with the gateway between them.
@Suite("Python's websockets at both ends (RFC 6455)", .serialized, .timeLimit(.minutes(3)))
struct WebSocketClientTests {
    private func serving(
        set: [String] = [], hasTLS: Bool = false,
        _ body: (GatewayProcess, PythonWebSockets) async throws -> Void
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
                try await GatewayProcess.running(file, set: set) { gateway in try await body(gateway, python) }
            }
        }
    }

    @Test("Texts, bytes, pings and closes of every size are forwarded, with and without TLS", arguments: [false, true])
    func talk(hasTLS: Bool) async throws {
        try await serving(hasTLS: hasTLS) { gateway, python in
            let address = try hasTLS ? #require(gateway.tls) : gateway.clear
            try await python.connecting(to: address + "/lobby", .talk) { client in
                let ending = try await client.ending()
                #expect(ending.status == 0, "\(client.errors)")
                #expect(client.lines == ["connected chat nobody", "talked", "closed 1000"])
            }
        }
    }

    @Test("Without a session the handshake fails; with a session the server receives the token")
    func session() async throws {
        try await serving { gateway, python in
            try await python.connecting(to: gateway.clear + "/chat", .talk) { client in
                let ending = try await client.ending()
                #expect(ending.status != 0)
                #expect(client.errors.contains("401"))
            }
            let browser = gateway.client
            _ = try await browser.signIn()
            try await python.connecting(to: gateway.clear + "/chat", .talk, cookie: browser.cookie) { client in
                let ending = try await client.ending()
                #expect(ending.status == 0, "\(client.errors)")
                #expect(client.lines.first?.hasPrefix("connected chat Bearer ") == true)
                #expect(client.lines.last == "closed 1000")
            }
        }
    }

    /// Expects the close code 1008 soon after `end` has ended the session.
    private func ends(
        set: [String] = [], _ task: PythonWebSockets.Task, by end: (WebClient) async throws -> Void
    ) async throws {
        try await serving(set: set) { gateway, python in
            let browser = gateway.client
            _ = try await browser.signIn()
            let cookie = browser.cookie
            try await python.connecting(to: gateway.clear + "/chat", task, cookie: cookie) { client in
                _ = try await client.waits(for: "the connection") { $0.lines.isEmpty ? nil : true }
                try await end(browser)
                let ending = try await client.ending()
                #expect(ending.status == 0, "\(client.errors)")
                #expect(client.lines.last == "closed 1008")
            }
        }
    }

    @Test("Rule 28: signing out closes the WebSocket with 1008, idle or busy", arguments: ["listen", "chatter"])
    func signOut(task: String) async throws {
        try await ends(try #require(PythonWebSockets.Task(rawValue: task))) { browser in
            let response = try await browser.send("DELETE", "/auth")
            #expect(response.status == 204)
        }
    }

    @Test("Rule 28: an idle session timeout closes the WebSocket with 1008")
    func idleTimeout() async throws {
        try await ends(set: ["session.idleTimeout=12s"], .listen) { _ in }
    }

    @Test("Rule 28: the absolute session timeout closes the WebSocket with 1008, also under traffic")
    func absoluteTimeout() async throws {
        try await ends(set: ["session.idleTimeout=12s", "session.absoluteTimeout=12s"], .chatter) { _ in }
    }

    @Test("A gateway that shuts down closes the WebSocket with 1001 and exits with 0")
    func drain() async throws {
        try await serving { gateway, python in
            try await python.connecting(to: gateway.clear + "/lobby", .listen) { client in
                _ = try await client.waits(for: "the connection") { $0.lines.isEmpty ? nil : true }
                gateway.program.send(SIGTERM)
                let ending = try await client.ending()
                #expect(ending.status == 0, "\(client.errors)")
                #expect(client.lines.last == "closed 1001")
                #expect(try await gateway.program.ending().status == 0)
            }
        }
    }
}
