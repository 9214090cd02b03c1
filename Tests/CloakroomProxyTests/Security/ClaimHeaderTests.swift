import CloakroomCore
import NIOHPACK
import TestSupport
import Testing

@Suite("Fields with claims of the user", .serialized)
struct ClaimHeaderTests {
    private static let headers = [
        ClaimHeader("X-User", claim: "sub"),
        ClaimHeader("X-Groups", claim: "groups", separator: UInt8(ascii: ",")),
    ]
    private static let spoofed = [
        "X-User: admin", "x-user: admin", "X_User: admin", "X.User: admin", "X_GROUPS: admin", "x-groups: admin",
    ]

    private static let user = Company.session()
    private static let cookie = FakeSessions.cookie(user.0)

    private static func setup(
        _ made: (SessionTicket, Session) = user,
        _ adjust: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in }
    ) -> GatewaySetup {
        let setup = GatewaySetup.serving.configuration { configuration in
            configuration.addCompany()
            configuration.upstreams[0].claimHeaders = headers
            configuration.changePrivate { $0.methods.append("PUT") }
            adjust(&configuration)
        }
        setup.sessions.add(made)
        return setup
    }

    private static func ask(_ path: String, _ fields: String...) -> String { Ask.ask("GET", path, spoofed + fields) }

    /// Expects the claim headers of these lines, and none in another spelling.
    private static func only(_ lines: String..., text: String? = nil) -> Scenario.Expectation {
        .init(
            has: ["X-User", "X-Groups"].map { name in
                lines.first { $0.hasPrefix("\(name):") } ?? name
            } + ["X_User", "X.User", "X_GROUPS"], lacks: ["admin"], text: text)
    }

    private static let staff = only("X-User: user-1", "X-Groups: staff")

    private static func dies(isTrusted: Bool) -> Scenario {
        Scenario(
            "Identity rule 22: a spoofed claim header dies on every route, for every client",
            on: setup {
                if isTrusted { $0.trustedProxies = [CIDRBlock("127.0.0.0/8")].compactMap { $0 } }
                $0.routes[0].passFields = ["X-User"]
            }, .ok(ask("/public/a", cookie)), .ok(ask("/token/a", cookie)), .ok(ask("/private/a", cookie)),
            sent: [only(), only(), staff], alsoHTTP2: true)
    }

    private static let separators = Company.session(claims: #"{"groups":["a,b","c\r\nX-Admin: 1"]}"#)
    private static let separated = Scenario.Expectation(
        has: ["X-User: user-1", "X-Groups: a%2Cb,c%0D%0AX-Admin:%201", "X-Admin"])
    private static let nameless = Company.session(claims: "{}")
    private static let structured = Company.session(claims: #"{"groups":["staff"],"address":{"street":"a"}}"#)
    private static let other = ask("/private/a", "X-Other: admin", FakeSessions.cookie(structured.0))

    private static let rows = [
        dies(isTrusted: false), dies(isTrusted: true),
        Scenario(
            "Identity rule 22: in trailers too", on: setup(),
            .ok(
                Ask.ask("PUT", "/private/a", [cookie, "Transfer-Encoding: chunked"]) + "2\r\nab\r\n0\r\n"
                    + spoofed.joined(separator: "\r\n") + "\r\nX-Sum: 1\r\n\r\n"),
            sent: [staff]),
        Scenario(
            "Identity rule 22: values end no line, and an item with the separator stays one item",
            on: setup(separators),
            .all(Array(repeating: Ask.get("/private/a", FakeSessions.cookie(separators.0)), count: 2), text: "ok"),
            sent: [separated, separated]),
        Scenario(
            "A session without claims, and a claim that the user does not have, have no field", on: setup(nameless),
            .ok(ask("/private/a", Ask.cookie)), .ok(ask("/private/a", FakeSessions.cookie(nameless.0))),
            sent: [only(), only("X-User: user-1")]),
        Scenario(
            "A reload changes the fields of the next request, and a claim that no field can contain is 403",
            on: setup(structured), .ok(other),
            .replace { $0.upstreams[0].claimHeaders = [ClaimHeader("X-Other", claim: "iss")] }, .ok(other),
            .replace { $0.upstreams[0].claimHeaders = [ClaimHeader("X-Address", claim: "address")] },
            .ask(other, 403, "missing_claim"),
            sent: [
                .init(has: ["X-Other: admin", "X-User: user-1", "X-Groups: staff", "X_User", "X.User", "X_GROUPS"]),
                .init(has: ["X-Other: https://id.example.com"]),
            ]),
    ]

    @Test("Claim headers", arguments: rows)
    func scenario(_ scenario: Scenario) async throws { try await scenario.run() }

    @Test("Claim headers reach an HTTP/2 upstream")
    func http2Upstream() async throws {
        let script: FrameServer.Script = { link, event in
            guard case .headers(let id, _, ends: true) = event else { return }
            link.send(.headers(id, HTTP2Fields([(":status", "200")]), ends: false), .data(id, "ok", ends: true))
        }
        try await FrameServer.run(script: script) { port, server in
            try await Self.setup().http2Upstream(port).run { gateway, client async throws in
                let ask = Ask.get("/private/a", "X_User: admin", Self.cookie)
                try await expect(client.exchange(ask).text, equals: "ok")
                let head = try require(server.requests.first?.head)
                expect(head["x-user"], equals: ["user-1"])
                expect(head["x-groups"], equals: ["staff"])
                expect(empty: head["x_user"])
            }
        }
    }
}
