import CloakroomCore
import TestSupport
import Testing

/// A listener for development serves hosts of this machine only.
@Suite("Listeners for development", .serialized)
struct DevelopmentListenerTests {
    private static func setup(
        _ change: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in }
    ) -> GatewaySetup {
        GatewaySetup.serving.configuration { configuration in
            configuration.listeners[0].isForDevelopment = true
            configuration.session.cookie.isSecure = false
            change(&configuration)
        }
    }

    private static func to(_ host: String, _ path: String = "/public/a", _ fields: String...) -> String {
        (["GET \(path) HTTP/1.1", "Host: \(host)"] + fields).joined(separator: "\r\n") + "\r\n\r\n"
    }

    private static let onLoopback = setup { $0.listeners[0].isForDevelopment = false }

    private static let rows = [
        Scenario(
            "Rule 100: a listener for development serves hosts of this machine", on: setup(),
            .all(["localhost:8080", "app.localhost", "127.0.0.1:1", "[::1]"].map { to($0) }, 200),
            .ok("GET http://localhost/public/a HTTP/1.1\r\nHost: localhost\r\n\r\n")),
        Scenario(
            "Rule 100: any other host gets 421, without a lookup of its session or a byte to the upstream", on: setup(),
            .each(
                ["evil.example", "localhost.evil.example", "gateway.test", "10.0.0.1", "127.0.0.1.nip.io"].flatMap {
                    [to($0), to($0, "/private/a", Ask.cookie), to($0, "/nothing"), to($0, "/session/login")]
                } + [
                    "GET http://evil.example/public/a HTTP/1.1\r\nHost: localhost\r\n\r\n",
                    "GET /public/a HTTP/1.0\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: evil.example\r\n\r\n",
                    to("evil.example", "/public/a", "X-Forwarded-Host: localhost", "Forwarded: host=localhost"),
                    to("evil.example", "/public/a", "Origin: http://evil.example", "Upgrade: websocket"),
                ], 421, "misdirected", has: ["Cache-Control: no-store"]),
            .run { expect($0.sessions.uses, equals: 0) }, sent: []),
        Scenario(
            "Other listeners serve every host",
            on: setup {
                $0.listeners.insert($0.listeners[0], at: 0)
                $0.listeners[0].isForDevelopment = false
                $0.session.cookie.isSecure = true
            }, .ok()),
        Scenario(
            "A reload applies to established connections", on: setup(), .ask(Ask.get(), 421, "misdirected"),
            .replace {
                $0.listeners[0].isForDevelopment = false
                $0.session.cookie.isSecure = true
            }, .ok()),
        Scenario(
            "Rule 100: in clear text on loopback without Secure, a page's host that resolves here gets 421 as well",
            on: onLoopback,
            .each(
                [
                    to("evil.example"), to("evil.example", "/private/a", Ask.cookie), to("[2001:db8::1]"),
                    "POST /session HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\n"
                        + "Sec-Fetch-Site: same-origin\r\nContent-Length: 0\r\n\r\n",
                ], 421, "misdirected"),
            .run { expect($0.sessions.uses, equals: 0) }, sent: []),
        Scenario(
            "On loopback, hosts of this machine, those of routes and of accounts.publicURL, and none are served",
            on: onLoopback.configuration {
                $0.routes[0].hosts = ["named.test"]
                $0.accounts.publicURL = "http://app.test:8080"
            },
            .all(["localhost:8080", "127.0.0.1", "named.test", "app.test:8080"].map { to($0, "/nothing") }, 404),
            .each(["GET /nothing HTTP/1.0\r\n\r\n"], 404, "not_found"),
            .ask(to("other.test"), 421, "misdirected")),
        Scenario(
            "Behind a proxy that terminates TLS, a listener on loopback serves other names",
            on: onLoopback.configuration { $0.listeners[0].isBehindTLSProxy = true }, .ok()),
        Scenario(
            "A listener on loopback that lists hosts serves these",
            on: onLoopback.configuration { $0.listeners[0].hosts = ["gateway.test"] }, .ok()),
    ]

    @Test("Listeners for development", arguments: rows)
    func hosts(_ scenario: Scenario) async throws {
        try await scenario.run()
    }

    @Test("Rule 100: the same holds for the authority of HTTP/2")
    func http2() async throws {
        try await Self.setup().runHTTP2 { gateway, client in
            for (id, host, status) in [(UInt32(1), "evil.example", 421), (3, "localhost:8080", 200)] {
                let fields = HTTP2Fields([
                    (":method", "GET"), (":scheme", "http"), (":authority", host), (":path", "/public/a"),
                ])
                let response = try await client.exchange(id, fields)
                expect(response.status, equals: status)
            }
            expect(gateway.upstream.requests.count, equals: 1)
        }
    }
}
