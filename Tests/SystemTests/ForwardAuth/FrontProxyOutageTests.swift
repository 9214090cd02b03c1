import CloakroomCore
import Foundation
import MockAPI
import TestSupport
import Testing

/// A gateway that gives no decision, behind each real proxy with its file in `deploy/forward-auth`.
@Suite("nginx, Caddy, Envoy and Traefik without a decision", .serialized, .timeLimit(.minutes(5)))
struct FrontProxyOutageTests {
    private static func response(_ status: String, _ fields: String = "") -> ScriptedServer.Act {
        .bytesThenClose("HTTP/1.1 \(status)\r\n\(fields)Content-Length: 0\r\nConnection: close\r\n\r\n")
    }

    /// What the gateway, or something else at its address, does in place of deciding.
    private static let failures: [(what: String, act: ScriptedServer.Act)] = [
        ("500", response("500 Internal Server Error")), ("502", response("502 Bad Gateway")),
        ("503", response("503 Service Unavailable", "Retry-After: 1\r\n")), ("429", response("429 Too Many Requests")),
        ("404", response("404 Not Found")), ("no HTTP", .bytesThenClose("nonsense\r\n\r\n")),
        ("half a head", .bytesThenClose("HTTP/1.1 200 OK\r\nX-API-TOKEN: ")), ("closed", .close), ("reset", .reset),
        ("slow", .silence),
    ]

    @Test(
        "Rule 107: a gateway that fails, is slow or responds with an error denies behind each proxy, and then permits again",
        arguments: FrontProxy.Kind.allCases)
    func failures(_ kind: FrontProxy.Kind) async throws {
        let settings = MockAPISettings.withTwoUsers
        let permits = ScriptedServer.Act.bytesThenClose(
            "HTTP/1.1 200 OK\r\nX-API-TOKEN: \(settings.apiToken)\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        try await MockAPI.withServer(settings) { mock in
            try await ScriptedServer.run([permits]) { decisions, gateway in
                let ports = FrontProxy.Ports(
                    accounts: try FreePort.next(), decisions: decisions,
                    api: try require(URL(string: mock.baseURL)?.port))
                // How long nginx, Caddy and Envoy wait. Traefik waits 30 s, and has no key for it.
                let change = { (file: String) in file.replacing("15s", with: "1s") }
                try await FrontProxy.running(kind, ports, change: change) { proxy in
                    for (what, act) in Self.failures {
                        // How nginx, the next two, and Envoy ask.
                        let questions = ["GET /_decide", "GET /", "GET /episodes"]
                        for question in questions { gateway.handle(question, [act]) }
                        let (before, asked) = (mock.observations.snapshot().total, gateway.requests.count)
                        let response = try await proxy.ask("GET", "/episodes", within: 3)
                        // Traefik waits longer than the client.
                        let isDenied = response.status >= 400 || kind == .traefik && what == "slow"
                        expect(isDenied, "\(kind): \(what): \(response)")
                        #expect(gateway.requests.count > asked, "\(kind): \(what)")
                        expect(mock.observations.snapshot().total, equals: before, "\(kind): \(what)")
                        for question in questions { gateway.handle(question, [permits]) }
                        let after = try await proxy.ask("GET", "/episodes")
                        expect(after.status, equals: 200, "\(kind): after \(what): \(after)")
                    }
                }
            }
        }
    }
}
