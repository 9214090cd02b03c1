import CloakroomCore
import Foundation
import MockAPI
import TestSupport
import Testing

/// The recipes of `deploy/forward-auth`, with the real proxies, the gateway as a process, and the mock API behind both.
@Suite("nginx, Caddy, Envoy and Traefik in front", .serialized, .timeLimit(.minutes(5)))
struct FrontProxyTests {
    /// A gateway, a proxy in front of the mock API, and the cookie of a user.
    private struct Site {
        let proxy: FrontProxy
        let gateway: GatewayProcess
        let mock: RunningMockAPI
        let apiToken: String
        let cookie: String

        /// The cookie of the user next to one of the application.
        var session: String { "Cookie: theme=dark; cloakroom=\(cookie)" }

        /// Sends a request.
        /// - Returns: The status, and what the API received of it.
        func send(_ request: Request) async throws -> (response: TestResponse, received: [RecordedRequest]) {
            let before = mock.observations.snapshot().total
            let response = try await proxy.ask(
                request.method, request.target, request.fields + (request.isSignedIn ? [session] : []),
                host: request.host, body: request.body)
            let traffic = mock.observations.snapshot()
            return (response, traffic.recent.suffix(traffic.total - before))
        }
    }

    /// A row of the table that all proxies have to pass.
    private struct Request {
        var method = "GET"
        var target = "/episodes"
        var fields: [String] = []
        var host = FrontProxy.host
        var body: String?
        var isSignedIn = false
        /// The statuses that are permitted; empty for any, if the API does not receive the request.
        var statuses: Set<Int> = []
        /// Whether the API may receive it; `nil` if it depends on the proxy.
        var isReceived: Bool?
    }

    private static func configuration(_ kind: FrontProxy.Kind, _ ports: FrontProxy.Ports, token: String) -> String {
        let common = "upstream: api, hosts: [\(FrontProxy.host)]"
        return FrontProxy.listeners(kind, ports) + """
            upstreams:
              api:
                targets: ["http://127.0.0.1:\(ports.api)"]
                apiToken: { value: \(token) }
                signIn: { path: /auth }
                refresh: { path: /auth/refresh }
                revoke: { path: /auth/revoke }
                user: { path: /user }
            routes:
              - { name: episodes, methods: [GET], path: /episodes, requiresAuthorization: false, inject: [apiToken], \(common) }
              - name: user
                methods: [GET]
                path: /user
                upstream: api
                hosts: [\(FrontProxy.host)]
                requiresAuthorization: true
                onMissingSession: login
                inject: [apiToken, bearer]
                requestFields: { set: { X-Account-Id: "{user.id}" } }
              - { name: live, methods: [GET], path: /live, websocket: true, requiresAuthorization: false, \(common) }
              - { name: echo, methods: [POST], path: /__mock/echo, requiresAuthorization: true, inject: [apiToken, bearer], \(common) }

            """
    }

    /// - Parameter api: The port that the proxy forwards to; by default that of the mock API.
    private func running<R: Sendable>(
        _ kind: FrontProxy.Kind, api: Int? = nil, change: (String) -> String = { $0 },
        _ body: (Site) async throws -> R
    ) async throws -> R {
        let settings = MockAPISettings.withTwoUsers
        return try await MockAPI.withServer(settings) { mock in
            let ports = FrontProxy.Ports(
                accounts: try FreePort.next(), decisions: try FreePort.next(),
                api: try require(URL(string: mock.baseURL)?.port))
            let yaml = Self.configuration(kind, ports, token: settings.apiToken)
            return try await GatewayProcess.running(yaml: yaml) { gateway in
                var behind = ports
                if let api { behind.api = api }
                return try await FrontProxy.running(kind, behind, change: change) { proxy in
                    let response = try await proxy.ask(
                        "POST", "/auth", ["Authorization: \(WebClient.basic("jo@example.com", "secret"))"])
                    let cookie = try require(response.cookie, "\(response)")
                    return try await body(
                        Site(proxy: proxy, gateway: gateway, mock: mock, apiToken: settings.apiToken, cookie: cookie))
                }
            }
        }
    }

    private static let navigation = ["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Accept: text/html"]

    /// Decisions, in the order of the table in the guide.
    private static let decisions: [Request] = {
        let echo = { (fields: [String], isSignedIn: Bool, statuses: Set<Int>, isReceived: Bool) in
            Request(
                method: "POST", target: "/__mock/echo", fields: fields, body: "x", isSignedIn: isSignedIn,
                statuses: statuses, isReceived: isReceived)
        }
        return [
            Request(statuses: [200], isReceived: true),
            Request(target: "/episodes?page=2", isSignedIn: true, statuses: [200], isReceived: true),
            Request(target: "/user", statuses: [401], isReceived: false),
            Request(target: "/user", isSignedIn: true, statuses: [200], isReceived: true),
            Request(target: "/user", fields: navigation, statuses: [303], isReceived: false),
            Request(target: "/user", fields: ["Authorization: Bearer evil"], statuses: [401], isReceived: false),
            Request(target: "/user", fields: ["Cookie: cloakroom=x"], statuses: [401], isReceived: false),
            Request(
                target: "/user", fields: ["Authorization: Bearer evil"], isSignedIn: true, statuses: [200],
                isReceived: true),
            Request(fields: ["Authorization: Bearer evil"], statuses: [200], isReceived: true),
            echo([], true, [403], false),
            echo(["Origin: https://evil.test"], true, [403], false),
            echo(["Sec-Fetch-Site: cross-site"], true, [403], false),
            echo(["Origin: http://\(FrontProxy.host)"], true, [200], true),
            echo(["Sec-Fetch-Site: same-origin"], true, [200], true),
            echo(["Sec-Fetch-Site: same-origin"], false, [401], false),
            Request(target: "/nothing", isSignedIn: true, statuses: [403], isReceived: false),
            Request(method: "PUT", isSignedIn: true, statuses: [403], isReceived: false),
            Request(target: "/authority", isSignedIn: true, statuses: [403], isReceived: false),
            Request(host: "evil.test", isReceived: false),
            // The host of the target precedes, for the proxy and so for the decision.
            Request(target: "http://evil.test/episodes", isReceived: false),
        ]
    }()

    /// What a client sends to be decided as another request or user.
    private static let attacks: [Request] = {
        let foreign = [
            "X-Forwarded-Uri: /episodes", "X-Original-URI: /episodes", "X-Forwarded-Method: GET",
            "X-Original-Method: GET", "X-Forwarded-Host: evil.test", "X-Forwarded-Prefix: /x",
            "Forwarded: host=evil.test",
        ]
        let spoofed = [
            "X-Account-Id: evil", "x-account-id: evil", "X_Account_Id: evil", "X.Account.Id: evil", "X_API_TOKEN: evil",
            "X-Client-Cert-Subject: CN=evil",
        ]
        // Only the API could believe these.
        let claims =
            ["Forwarded: host=evil.test"]
            + [
                "X-Forwarded-Host", "X-Forwarded-Method", "X-Forwarded-Path", "X-Forwarded-Port", "X-Forwarded-Prefix",
                "X-Forwarded-Server", "X-Forwarded-Uri", "X-Original-Method", "X-Original-URI", "X-Real-IP",
            ].map { "\($0): evil" }
        return [
            Request(fields: claims, statuses: [200], isReceived: true),
            Request(fields: ["X-Host: evil.test"], statuses: [403], isReceived: false),
            Request(fields: ["X-Original-Host: evil.test"], statuses: [403], isReceived: false),
            Request(target: "/user", fields: foreign, statuses: [401], isReceived: false),
            Request(target: "/user", fields: foreign + foreign, statuses: [401, 403], isReceived: false),
            Request(
                target: "/user", fields: ["Connection: X-Account-Id, Authorization, X-API-TOKEN, Cookie"],
                isSignedIn: true
            ),
        ] + spoofed.map { Request(fields: [$0]) }
            + spoofed.map { Request(target: "/user", fields: [$0], isSignedIn: true) }
    }()

    /// Other spellings of a path that needs a session.
    private static let spellings = [
        "/episodes/../user", "/episodes/%2e%2e/user", "//user", "/user;x", "/User", "/%75ser", "/user%2f", "/./user",
        "/user%00", "/auth/../user", "/auth/..%2fuser", "/episodes/..;/user", "/user%3f", "/user%5c",
    ]

    @Test(
        "Rules 106, 107 and 111: forty requests are decided alike behind each real proxy",
        arguments: FrontProxy.Kind.allCases)
    func table(_ kind: FrontProxy.Kind) async throws {
        try await running(kind) { site in
            for request in Self.decisions + Self.attacks {
                let (response, received) = try await site.send(request)
                let what = "\(kind): \(request)\n\(response)\n\(received)"
                if !request.statuses.isEmpty { expect(request.statuses.contains(response.status), "\(what)") }
                if let isReceived = request.isReceived { expect(received.isEmpty != isReceived, "\(what)") }
                if response.status == 303 {
                    let location = response.values(of: "Location").first ?? ""
                    expect(location.hasPrefix("http://\(FrontProxy.host)/auth/"), "\(what)")
                }
                for one in received { Self.check(one, site, what) }
            }
        }
    }

    /// Whatever a client sends, the API gets the values of the gateway, or none.
    private static func check(_ request: RecordedRequest, _ site: Site, _ what: String) {
        for header in request.headers {
            switch header.name.lowercased().replacing("_", with: "-").replacing(".", with: "-") {
            case "authorization": expect(header.value.isEmpty || header.value != "Bearer evil", "\(what)")
            case "x-api-token": expect(["", site.apiToken].contains(header.value), "\(what)")
            case "cookie": expect(["", "theme=dark"].contains(header.value), "\(what)")
            default: expect(!header.value.contains("evil"), "\(what)")
            }
        }
        let authorization = request.values(of: "Authorization").joined()
        if request.path == "/episodes" { expect(empty: authorization, "\(what)") }
    }

    @Test(
        "Rule 110: no other spelling of a path reaches the API without a session", arguments: FrontProxy.Kind.allCases)
    func spellings(_ kind: FrontProxy.Kind) async throws {
        try await running(kind) { site in
            for target in Self.spellings {
                let (response, received) = try await site.send(Request(target: target))
                expect(
                    received.allSatisfy { $0.path == "/episodes" }, "\(kind): \(target)\n\(response)\n\(received)")
            }
        }
    }

    /// The fields of requests for another protocol.
    private static let upgrades: [[String]] = {
        let handshake = ["Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version: 13"]
        return [
            ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"],
            ["Connection: Upgrade", "Upgrade: h2c-14"], ["Connection: Upgrade", "Upgrade: TLS/1.0"],
            ["Connection: Upgrade", "Upgrade: websocket, h2c"] + handshake,
            ["Connection: Upgrade", "Upgrade: websocket"], ["Connection: Upgrade", "Upgrade: websocket"] + handshake,
        ]
    }()

    @Test(
        "Rule 147: behind each real proxy an API gets no upgrade but to a WebSocket, on a route for it",
        arguments: FrontProxy.Kind.allCases)
    func upgrades(_ kind: FrontProxy.Kind) async throws {
        let ok = ScriptedServer.Act.bytesThenClose(ScriptedServer.json("{}"))
        try await ScriptedServer.run([ok]) { port, api in
            try await running(kind, api: port) { site in
                func ask(_ path: String, _ fields: [String]) async throws -> (head: String, received: [String]) {
                    let before = api.requests.count
                    let lines = ["GET \(path) HTTP/1.1", "Host: \(FrontProxy.host)"] + fields
                    let client = try await RawPeer.connect(
                        port: site.proxy.port, sending: lines.joined(separator: "\r\n") + "\r\n\r\n")
                    let head = try await client.head()
                    try? await client.close()
                    return (head, api.requests.dropFirst(before).map { $0.lowercased() })
                }
                // As Hypercorn does: it then reads requests of HTTP/2, about which no proxy asks. Only Caddy forwards h2c.
                if kind == .caddy { api.handle("GET /episodes", [Self.switching(to: "h2c")]) }
                for fields in Self.upgrades {
                    let (head, received) = try await ask("/episodes", fields)
                    expect(!head.hasPrefix("HTTP/1.1 101"), "\(kind): \(fields)\n\(head)")
                    expect(received.allSatisfy { !$0.contains("\r\nupgrade:") }, "\(kind): \(received)")
                    expect(kind != .caddy || head.hasPrefix("HTTP/1.1 403") && received.isEmpty, "\(head)")
                }
                // The recipe of nginx has no WebSockets.
                guard kind != .nginx, let handshake = Self.upgrades.last else { return }
                api.handle("GET /live", [Self.switching(to: "websocket")])
                let (head, received) = try await ask("/live", handshake)
                expect(head.hasPrefix("HTTP/1.1 101"), "\(kind): \(head)")
                expect(received.count == 1 && received[0].contains("\r\nupgrade: websocket\r\n"), "\(received)")
            }
        }
    }

    private static func switching(to name: String) -> ScriptedServer.Act {
        .bytes("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: \(name)\r\n\r\n")
    }

    @Test("Rule 112: behind an Envoy that sends no Origin, unsafe requests are 403, and the log has the reason")
    func missingOrigin() async throws {
        let change = { (file: String) in
            file.replacing(#"{safe_regex: {regex: ".*"}}"#, with: "{exact: cookie}, {prefix: x-forwarded-}")
        }
        try await running(.envoy, change: change) { site in
            let origin = "Origin: http://\(FrontProxy.host)"
            for field in [origin, "Sec-Fetch-Site: same-origin"] {
                let (response, received) = try await site.send(
                    Request(method: "POST", target: "/__mock/echo", fields: [field], body: "x", isSignedIn: true))
                expect(response.status == 403 && response.problem?.code == "cross_site", "\(response)")
                expect(empty: received)
            }
            let safe = try await site.send(Request(target: "/user", isSignedIn: true))
            expect(safe.response.status, equals: 200)
            let lines = try await site.gateway.program.waits(for: "the hint") { program in
                let lines = program.lines.filter { $0.contains("forward_auth_origin") }
                return lines.isEmpty ? nil : lines
            }
            expect(lines.allSatisfy { $0.contains("allowed_headers") }, "\(lines)")
        }
    }

    @Test("Sign-in, sign-out and the account endpoints work through each proxy", arguments: FrontProxy.Kind.allCases)
    func accounts(_ kind: FrontProxy.Kind) async throws {
        try await running(kind) { site in
            let redirect = try await site.send(Request(target: "/user", fields: Self.navigation))
            let link = try require(redirect.response.values(of: "Location").first)
            let page = try await site.send(
                Request(target: String(link.dropFirst("http://\(FrontProxy.host)".count)), fields: Self.navigation))
            expect(page.response.status == 200 && page.response.body.contains("<form"), "\(page.response)")
            let current = try await site.send(Request(target: "/auth", isSignedIn: true))
            expect(current.response.status, equals: 200)
            expect(current.response.body.contains("jo@example.com"))
            let ended = try await site.send(
                Request(method: "DELETE", target: "/auth", fields: ["Sec-Fetch-Site: same-origin"], isSignedIn: true))
            expect(ended.response.status, equals: 204)
            let after = try await site.send(Request(target: "/user", isSignedIn: true))
            expect(after.response.status, equals: 401)
            expect(empty: after.received)
            // nginx passes on no body: its recipe has one that clients of the gateway know.
            let document = after.response.body.contains("urn:cloakroom:problem:unauthorized")
            expect(kind != .nginx || document, "\(after.response)")
        }
    }

    @Test("Without the gateway each proxy denies", arguments: FrontProxy.Kind.allCases)
    func gatewayAway(_ kind: FrontProxy.Kind) async throws {
        try await running(kind) { site in
            site.gateway.program.send(SIGKILL)
            _ = try await site.gateway.program.ending()
            for request in [Request(), Request(target: "/user", isSignedIn: true)] {
                let (response, received) = try await site.send(request)
                #expect(response.status >= 400, "\(response)")
                expect(empty: received)
            }
        }
    }
}
