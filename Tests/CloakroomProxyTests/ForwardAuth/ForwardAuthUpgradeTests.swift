import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomProxy

/// WebSockets and other upgrades. The proxy that asks forwards them, and nothing is decided after them.
@Suite("Forward authorization of upgrades", .serialized)
struct ForwardAuthUpgradeTests {
    @Test(
        "Rule 112: a WebSocket handshake from another origin is rejected, whichever of its fields the proxy sends",
        arguments: Question.proxies)
    func handshakes(_ proxy: ForwardAuthConfiguration.Proxy) async throws {
        let upgrade = ["Connection: Upgrade", "Upgrade: websocket"]
        let announced = [
            ["Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="], ["Sec-WebSocket-Version: 13"], ["sec_websocket_key: a"],
            upgrade, ["Upgrade: WebSocket"],
        ]
        let own = ["Origin: https://gateway.test", "Sec-Fetch-Site: same-origin"]
        let foreign = ["Origin: https://evil.test", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "A: b"]
        let ask = { @Sendable (path: String, fields: [String], origins: [String]) in
            announced.flatMap { announced in
                origins.map { Question.of(proxy, "GET", path, announced + fields + [$0]) }
            }
        }
        let setup = ForwardAuthTests.setup(proxy) {
            $0.changePrivate { $0.allowsWebSocket = true }
            $0.routes[0].allowsWebSocket = true
            $0.routes[0].stream.origins = ["https://app.test"]
        }
        let basic = ["Authorization: Basic dTpw"]
        try await Scenario(
            "\(proxy)", on: setup, .each(ask("/private/a", [Ask.cookie], foreign), 403, "cross_site"),
            .each(ask("/private/a", [Ask.cookie], own), 200),
            // `stream.origins` applies without a session.
            .each(ask("/public/a", [], ["Origin: https://evil.test"]), 403, "cross_site"),
            .each(ask("/public/a", [], ["Origin: https://app.test"]), 200),
            // Only `GET` opens a WebSocket.
            .each(
                announced.map { Question.of(proxy, "POST", "/private/a", $0 + [Ask.cookie, own[0]]) }, 403,
                "bad_request"),
            .each(announced.map { Question.of(proxy, "HEAD", "/public/a", $0) }, 403),
            .replace {
                $0.changePrivate {
                    $0.allowsWebSocket = true
                    $0.credentials = .pass
                }
            },
            .each(ask("/private/a", basic, foreign), 403, "cross_site"), .each(ask("/private/a", basic, own), 200),
            sent: []
        ).run()
    }

    @Test(
        "Rule 147: a request for another protocol than WebSocket is rejected, whichever of its fields the proxy sends",
        arguments: Question.proxies)
    func upgrades(_ proxy: ForwardAuthConfiguration.Proxy) async throws {
        let socket = ["Connection: Upgrade", "Upgrade: websocket"]
        let rejected: [[String]] = [
            ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"],
            ["Connection: Upgrade", "Upgrade: h2c"], ["Upgrade:\tH2C "], ["upgrade: h2c-14"], ["Upgrade: HTTP/2.0"],
            ["Connection: Upgrade", "Upgrade: TLS/1.0"], ["Upgrade: foo"], ["Upgrade:"], ["Upgrade: ,"],
            ["Upgrade: websocket, h2c"], ["Upgrade: h2c, websocket"], ["Upgrade: websocket,"],
            ["Upgrade: websocket/13"], socket + ["Upgrade: h2c"], ["Upgrade: h2c"] + socket,
            socket + ["upgrade: websocket"], ["HTTP2-Settings: AAMAAABkAAQAAP__"], ["http2-settings:"],
            socket + ["HTTP2-Settings: AAMAAABkAAQAAP__"],
        ]
        let handshake = ["Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version: 13"]
        let own = [Ask.cookie, "Origin: https://gateway.test"]
        let ask = { @Sendable (method: String, path: String, fields: [String]) in
            rejected.map { Question.of(proxy, method, path, $0 + fields) }
        }
        let setup = ForwardAuthTests.setup(proxy) { $0.changePrivate { $0.allowsWebSocket = true } }
        try await Scenario(
            "\(proxy)", on: setup, .each(ask("GET", "/private/a", handshake + own), 403, "bad_request"),
            .each(ask("GET", "/private/a", own), 403, "bad_request"),
            .each(ask("POST", "/private/a", own), 403, "bad_request"),
            .each(ask("GET", "/public/a", []), 403, "bad_request"),
            // What is no upgrade, and the one that the route permits.
            .ask(Question.of(proxy, "GET", "/public/a", "Connection: Upgrade, HTTP2-Settings", "TE: trailers"), 200),
            .ask(Question.of(proxy, "GET", "/private/a", socket + handshake + own), 200),
            .ask(Question.of(proxy, "GET", "/public/a", socket + handshake), 403, "not_found"),
            .each([Question.of(proxy, "CONNECT", "/public/a")], 403, "not_implemented"), sent: []
        ).run()
    }
}
