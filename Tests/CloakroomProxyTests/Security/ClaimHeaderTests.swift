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

    private static func setup(
        _ made: (SessionTicket, Session), headers: [ClaimHeader] = headers,
        _ adjust: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in }
    ) -> GatewaySetup {
        let sessions = FakeSessions()
        sessions.add(made)
        return GatewaySetup([.request, .send(Reply.ok), .again]).with(\.sessions, sessions).configuration {
            configuration in
            configuration.addCompany()
            configuration.upstreams[0].claimHeaders = headers
            configuration.changePrivate { $0.methods.append("PUT") }
            adjust(&configuration)
        }
    }

    /// The lines of a request that name a claim header, in any spelling.
    private static func lines(_ request: ScriptedUpstream.Request) -> [String] {
        request.head.split(separator: "\r\n").map(String.init).filter { line in
            let name = line.prefix { $0 != ":" }.lowercased().map { $0.isLetter ? $0 : "-" }
            return ["x-user", "x-groups"].contains(String(name))
        }
    }

    private static func ask(_ path: String, _ fields: [String] = []) -> String {
        (["GET \(path) HTTP/1.1", "Host: gateway.test"] + fields).joined(separator: "\r\n") + "\r\n\r\n"
    }

    @Test("Identity rule 22: a spoofed claim header dies on every route, for every client", arguments: [false, true])
    func spoofedClaimHeaderDies(isTrusted: Bool) async throws {
        let made = Company.session()
        try await Self.setup(made) { configuration in
            if isTrusted { configuration.trustedProxies = [CIDRBlock("127.0.0.0/8")].compactMap { $0 } }
            configuration.routes[0].passFields = ["X-User"]
        }.run { gateway in
            let client = try await gateway.client()
            let cookie = FakeSessions.cookie(made.0)
            for path in ["/public/a", "/token/a"] {
                #expect(try await client.exchange(Self.ask(path, Self.spoofed + [cookie])).text == "ok")
            }
            #expect(try await client.exchange(Self.ask("/private/a", Self.spoofed + [cookie])).text == "ok")
            let requests = gateway.upstream.requests
            #expect(requests.map(Self.lines) == [[], [], ["X-User: user-1", "X-Groups: staff"]])
            #expect(!requests.contains { $0.head.contains("admin") })
        }
    }

    @Test("Identity rule 22: over HTTP/2 too")
    func spoofedClaimHeaderDiesOverHTTP2() async throws {
        let made = Company.session()
        let setup = Self.setup(made) { $0.listeners[0].http2 = true }
        try await setup.run { gateway in
            let client = try await gateway.http2()
            let spoofed = Self.spoofed.map { line in
                let parts = line.split(separator: ": ")
                return (parts[0].lowercased(), String(parts[1]))
            }
            for (id, path) in [(UInt32(1), "/public/a"), (3, "/private/a")] {
                var fields = HTTP2Fields.get(path, ("cookie", "__Host-cloakroom=\(made.0.cookieValue)"))
                fields.lines += HTTP2Fields(spoofed).lines
                #expect(try await client.exchange(id, fields).text == "ok")
            }
            let requests = gateway.upstream.requests
            #expect(requests.map(Self.lines) == [[], ["X-User: user-1", "X-Groups: staff"]])
            #expect(!requests.contains { $0.head.contains("admin") })
        }
    }

    @Test("Identity rule 22: in trailers too")
    func spoofedTrailerDies() async throws {
        let made = Company.session()
        try await Self.setup(made).run { gateway in
            let client = try await gateway.client()
            let trailers = Self.spoofed.map { $0 + "\r\n" }.joined() + "X-Sum: 1\r\n"
            let response = try await client.exchange(
                "PUT /private/a HTTP/1.1\r\nHost: a\r\n\(FakeSessions.cookie(made.0))\r\nTransfer-Encoding: chunked\r\n"
                    + "\r\n2\r\nab\r\n0\r\n\(trailers)\r\n")
            #expect(response.text == "ok")
            let request = try await gateway.upstream.request()
            #expect(Self.lines(request) == ["X-User: user-1", "X-Groups: staff"])
            #expect(!request.text.contains("admin"))
        }
    }

    @Test("Identity rule 22: values end no line, and an item with the separator stays one item")
    func values() async throws {
        let made = Company.session(claims: #"{"groups":["a,b","c\r\nX-Admin: 1"]}"#)
        try await Self.setup(made).run { gateway in
            let client = try await gateway.client()
            let ask = Ask.get("/private/a", FakeSessions.cookie(made.0))
            for _ in 0..<2 { #expect(try await client.exchange(ask).text == "ok") }
            for request in gateway.upstream.requests {
                #expect(Self.lines(request) == ["X-User: user-1", "X-Groups: a%2Cb,c%0D%0AX-Admin:%201"])
                #expect(request["X-Admin"] == nil)
            }
        }
    }

    @Test("A session without claims, and a claim that the user does not have, have no field")
    func absent() async throws {
        let made = Company.session(claims: "{}")
        let setup = Self.setup(made)
        let password = setup.sessions.add()
        try await setup.run { gateway in
            let client = try await gateway.client()
            for line in [password, FakeSessions.cookie(made.0)] {
                #expect(try await client.exchange(Self.ask("/private/a", Self.spoofed + [line])).text == "ok")
            }
            #expect(gateway.upstream.requests.map(Self.lines) == [[], ["X-User: user-1"]])
        }
    }

    @Test("A reload changes the fields of the next request, and a claim that no field can contain is 403")
    func reload() async throws {
        let made = Company.session(claims: #"{"groups":["staff"],"address":{"street":"a"}}"#)
        try await Self.setup(made).run { gateway in
            let client = try await gateway.client()
            let ask = Self.ask("/private/a", Self.spoofed + ["X-Other: admin", FakeSessions.cookie(made.0)])
            #expect(try await client.exchange(ask).text == "ok")
            try await gateway.replace {
                $0.upstreams[0].claimHeaders = [ClaimHeader("X-Other", claim: "iss")]
            }
            #expect(try await client.exchange(ask).text == "ok")
            let requests = gateway.upstream.requests
            #expect(requests.map { $0.values("X-Other") } == [["admin"], ["https://id.example.com"]])
            #expect(Self.lines(requests[0]) == ["X-User: user-1", "X-Groups: staff"])
            try await gateway.replace {
                $0.upstreams[0].claimHeaders = [ClaimHeader("X-Address", claim: "address")]
            }
            let response = try await client.exchange(ask)
            #expect(response.status == 403)
            #expect(response.code == "missing_claim")
            #expect(gateway.upstream.requests.count == 2)
        }
    }

    @Test("Claim headers reach an HTTP/2 upstream")
    func http2Upstream() async throws {
        let made = Company.session()
        let script: FrameServer.Script = { link, event in
            guard case .headers(let id, _, ends: true) = event else { return }
            link.send(.headers(id, HTTP2Fields([(":status", "200")]), ends: false), .data(id, "ok", ends: true))
        }
        try await FrameServer.run(script: script) { port, server in
            try await Self.setup(made).http2Upstream(port).run { gateway in
                let client = try await gateway.client()
                let ask = Ask.get("/private/a", "X_User: admin", FakeSessions.cookie(made.0))
                #expect(try await client.exchange(ask).text == "ok")
                let head = try #require(server.requests.first?.head)
                #expect(head["x-user"] == ["user-1"])
                #expect(head["x-groups"] == ["staff"])
                #expect(head["x_user"].isEmpty)
            }
        }
    }
}
