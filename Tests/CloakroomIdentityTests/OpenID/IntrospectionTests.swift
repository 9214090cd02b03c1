import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomIdentity

@Suite("Introspection of access tokens", .serialized, .timeLimit(.minutes(3)))
struct IntrospectionTests {
    private static let endpoint = "POST /introspect"

    private static func verifyItself(_ configuration: inout IdentityConfiguration) {
        configuration.accessTokens = .init()
        configuration.accessTokens?.audience = ["orders"]
    }

    private static func ask(_ configuration: inout IdentityConfiguration) {
        verifyItself(&configuration)
        configuration.accessTokens?.introspection = .init()
    }

    /// A response of the provider about a valid token. Each member is JSON; `nil` removes one.
    private static func response(_ changes: [String: String?] = [:]) -> String {
        let valid: [String: String?] = [
            "active": "true", "aud": #""orders""#, "sub": #""jo""#, "client_id": #""batch""#,
            "scope": #""read write""#, "name": #""Jo""#,
        ]
        let members = valid.merging(changes) { $1 }.compactMapValues(\.self)
        return ScriptedServer.json("{\(members.map { "\"\($0)\":\($1)" }.joined(separator: ","))}")
    }

    private static func run(
        timeout: Duration = .seconds(1), dpop: IdentityConfiguration.AccessTokens.Binding = .optional,
        _ body: (ProviderFixture, VerifiedTokens) async throws -> Void
    ) async throws {
        try await ProviderFixture.run(
            change: {
                ask(&$0)
                $0.accessTokens?.introspection?.timeout = timeout
                $0.accessTokens?.dpop = dpop
            },
            metadata: [("introspection_endpoint", #""ISSUER/introspect""#)],
            prepare: { server, _ in server.respond(to: endpoint, with: response()) }
        ) { fixture in
            try await body(fixture, VerifiedTokens([[fixture.provider]], clock: { fixture.now }))
        }
    }

    private static func verify(
        _ tokens: VerifiedTokens, _ token: String = "opaque", from peer: String = "192.0.2.1"
    ) async -> RefreshOutcome {
        await tokens.verify(Secret("Bearer \(token)"), site: 0, from: AuditContext(peer: peer, requestID: "r"))
    }

    /// The code of the problem; "active" or "none" without one.
    private static func code(_ outcome: RefreshOutcome?) -> String {
        switch outcome {
        case .active?: "active"
        case .failed(let problem)?: problem.code.rawValue
        default: "none"
        }
    }

    private static func session(_ outcome: RefreshOutcome) -> Session? {
        if case .active(let session) = outcome { session } else { nil }
    }

    private static func cached(_ tokens: VerifiedTokens, _ token: String = "opaque", at now: WallTime) -> String {
        code(tokens.cached(Secret("Bearer \(token)"), site: 0, now: now))
    }

    private static func reasons(_ fixture: ProviderFixture) -> [TokenRejection] {
        fixture.events.compactMap { if case .accessToken(_, let reason?, _) = $0 { reason } else { nil } }
    }

    @Test("Rule 133: a token of any look is a session with what the provider states to the client")
    func active() async throws {
        try await Self.run { fixture, tokens in
            // Whatever is not readable: an encrypted token has five parts.
            for token in ["opaque", "a.b.c", "e30.e30", "e30.YQ.YQ.YQ.YQ", try fixture.accessToken()] {
                let session = try require(Self.session(await Self.verify(tokens, token)))
                let claims = try require(session.claims)
                expect(claims.values[claim: "sub"] == .string("jo") && claims.values[claim: "name"] == .string("Jo"))
                expect(claims.values[claim: "scope"], equals: .array([.string("read"), .string("write")]))
                expect(session.authorization, equals: Secret("Bearer \(token)"))
                let request = try require(fixture.requests(Self.endpoint).last)
                expect(request.form, equals: ["token": token, "token_type_hint": "access_token"])
                expect(request.field("Authorization")?.hasPrefix("Basic "), equals: true)
            }
        }
    }

    typealias Row = (members: [String: String?], expected: TokenRejection?)

    private static let table: [Row] = [
        (["active": "false"], .inactive), (["active": #""true""#], .inactive), (["active": "1"], .inactive),
        (["active": nil], .inactive), (["active": "null"], .inactive),
        (["aud": nil], .wrongAudience), (["aud": "[]"], .wrongAudience), (["aud": #""order""#], .wrongAudience),
        (["aud": #""cloakroom""#], .wrongAudience), (["aud": #"["x","orders"]"#], nil),
        (["iss": #""https://id.example.org""#], .wrongIssuer), (["iss": "1"], .wrongIssuer), (["iss": "null"], nil),
        (["sub": nil], .invalidSubject), (["exp": "1799999970"], .expired), (["exp": "1799999971"], nil),
        (["exp": #""x""#], .invalidExpiry), (["exp": "2115600000"], .expiresTooLate),
        (["iat": "1800000031"], .issuedInFuture), (["nbf": "1800000031"], .notYetValid),
        (["client_id": nil], .otherClient), (["client_id": nil, "azp": #""batch""#], nil),
        (["client_id": #""cloakroom""#], .ownToken), (["cnf": #"{"jkt":"x"}"#], .senderConstrained),
        (["token_type": #""bearer""#], nil), (["token_type": #""DPoP""#], .senderConstrained),
        (["token_type": #""refresh_token""#], .wrongType), (["typ": #""Refresh""#], .wrongType),
        (["typ": #""Bearer""#], nil), (["typ": #""ID""#], .wrongType), (["token_use": "1"], .wrongType),
        (["token_use": #""refresh_token""#], .wrongType), (["scope": "1"], .invalidScope),
        (["name": "\"\(String(repeating: "a", count: 16_000))\""], nil),
        (["name": "\"\(String(repeating: "a", count: 16_384))\""], .invalidPayload),
    ]

    @Test("Rule 133: every statement of the provider has its rejection")
    func rejections() async throws {
        try await Self.run { fixture, _ in
            for row in Self.table {
                fixture.server.respond(to: Self.endpoint, with: Self.response(row.members))
                let seen = Self.reasons(fixture).count
                let tokens = VerifiedTokens([[fixture.provider]], clock: { fixture.now })
                let code = Self.code(await Self.verify(tokens))
                expect(code, equals: (row.expected == nil ? "active" : "invalid_token"), "\(row)")
                expect(
                    Array(Self.reasons(fixture).dropFirst(seen)), equals: [row.expected].compactMap(\.self), "\(row)")
            }
        }
    }

    @Test("Rule 133: a token that is bound to a key, as its provider states, needs the proofs of that key")
    func bound() async throws {
        let client = try ProvingClient()
        try await Self.run { fixture, _ in
            let key = Base64URL.encode(try client.thumbprint())
            let members: [String: String?] = ["cnf": "{\"jkt\":\"\(key)\"}", "token_type": #""DPoP""#]
            fixture.server.respond(to: Self.endpoint, with: Self.response(members))
            let tokens = VerifiedTokens(
                [[fixture.provider]], origins: [ProvingClient.origin], proofs: TokenProofs(sealing: KeyedSealing()),
                clock: { fixture.now })
            expect(Self.code(await Self.verify(tokens)), equals: "invalid_token")
            for (id, expected) in [("1", "active"), ("1", "invalid_dpop_proof"), ("2", "active")] {
                let proof = try client.proof(of: "opaque", at: fixture.now, id: id)
                let outcome = await tokens.verify(
                    Secret("Bearer opaque"), proof: proof, site: 0, from: AuditContext(peer: "::1", requestID: "r"))
                expect(Self.code(outcome), equals: expected)
            }
            expect(fixture.requests(Self.endpoint).count, equals: 1)
        }
    }

    @Test(
        "Identity rule 46: a token that is bound to a certificate, as its provider states, is rejected in each scheme",
        arguments: IdentityConfiguration.AccessTokens.Binding.allCases)
    func certificate(dpop: IdentityConfiguration.AccessTokens.Binding) async throws {
        let client = try ProvingClient()
        let key = Base64URL.encode(try client.thumbprint())
        try await Self.run(dpop: dpop) { fixture, _ in
            for cnf in [#"{"x5t#S256":"\#(key)"}"#, #"{"x5t#S256":"\#(key)","jkt":"\#(key)"}"#] {
                fixture.server.respond(to: Self.endpoint, with: Self.response(["cnf": cnf]))
                for proof in [nil, try client.proof(of: "opaque", at: fixture.now)] {
                    let tokens = VerifiedTokens(
                        [[fixture.provider]], origins: [ProvingClient.origin],
                        proofs: TokenProofs(sealing: KeyedSealing()), clock: { fixture.now })
                    let outcome = await tokens.verify(
                        Secret("Bearer opaque"), proof: proof, site: 0, from: AuditContext(peer: "::1", requestID: "r"))
                    expect(Self.code(outcome), equals: "invalid_token")
                }
            }
            expect(Self.reasons(fixture), equals: Array(repeating: .senderConstrained, count: 4))
        }
    }

    @Test("Rule 134: one question for all equal requests, and another after the time of the cache")
    func once() async throws {
        try await Self.run { fixture, tokens in
            await withTaskGroup(of: String.self) { group in
                for _ in 0..<10_000 { group.addTask { Self.code(await Self.verify(tokens)) } }
                for await code in group { expect(code, equals: "active") }
            }
            expect(fixture.requests(Self.endpoint).count, equals: 1)
            expect(Self.cached(tokens, at: fixture.now + .milliseconds(29_999)), equals: "active")
            // Also after the end that was assumed for a token without one.
            for seconds in [30, 86_400] {
                expect(Self.cached(tokens, at: fixture.now + .seconds(seconds)), equals: "none")
            }
            fixture.server.respond(to: Self.endpoint, with: Self.response(["exp": "1799999990"]))
            let session = try require(Self.session(await Self.verify(tokens, "short")))
            expect(session.expiresAt, equals: SessionTime(seconds: 1_800_000_020))
            expect(Self.cached(tokens, "short", at: fixture.now + .milliseconds(19_999)), equals: "active")
            expect(Self.cached(tokens, "short", at: fixture.now + .seconds(20)), equals: "none")
            // The first one was revoked.
            fixture.advance(by: .seconds(30))
            fixture.server.respond(to: Self.endpoint, with: Self.response(["active": "false"]))
            expect(Self.code(await Self.verify(tokens)), equals: "invalid_token")
            expect(Self.cached(tokens, at: fixture.now + .milliseconds(4_999)), equals: "invalid_token")
            expect(Self.cached(tokens, at: fixture.now + .seconds(5)), equals: "none")
            expect(fixture.requests(Self.endpoint).count, equals: 3)
        }
    }

    private static func word(_ lookup: SessionLookup?) -> String {
        switch lookup {
        case .active?: "active"
        case .missing(let reason)?: reason.rawValue
        case .notCached?: "due"
        case nil: "none"
        }
    }

    @Test("Rule 142: for a long-lived response the provider is asked again after the time of the cache")
    func longLived() async throws {
        try await Self.run { fixture, tokens in
            let origin = AuditContext(peer: "192.0.2.1", requestID: "r")
            var session = try require(Self.session(await Self.verify(tokens)))
            func known(after seconds: Int64 = 0, to other: VerifiedTokens? = nil) -> String {
                Self.word((other ?? tokens).lookup(session, now: fixture.now + .seconds(seconds)))
            }
            func asked() async -> String {
                let lookup = await tokens.load(session, site: 0, from: origin)
                if case .active(let renewed)? = lookup { session = renewed }
                return Self.word(lookup)
            }
            expect(known(after: 29) == "active" && known(after: 30) == "due")
            expect(session.beginRequest(limit: 1))
            fixture.advance(by: .seconds(30))
            await expect(asked(), equals: "active")
            // Requests in flight count together with those before (rule 63).
            expect(!session.beginRequest(limit: 1))
            expect(known(after: 29) == "active" && fixture.requests(Self.endpoint).count == 2)
            // Also if the table has no entry any more: there may be more streams than entries.
            let other = VerifiedTokens([[fixture.provider]], clock: { fixture.now })
            expect(known(after: 29, to: other) == "active" && known(after: 30, to: other) == "due")
            // A provider that does not respond states nothing.
            fixture.advance(by: .seconds(30))
            fixture.server.respond(to: Self.endpoint, with: ScriptedServer.json("{}", status: "500 Error"))
            await expect(asked(), equals: "none")
            expect(known(), equals: "due")
            // Rejected tokens of the same address do not prevent the question.
            fixture.server.respond(to: Self.endpoint, with: Self.response(["active": "false"]))
            var code = ""
            for index in 0..<100 where code != "rate_limited" {
                code = Self.code(await Self.verify(tokens, "forged-\(index)"))
            }
            expect(code, equals: "rate_limited")
            await expect(asked(), equals: "revoked")
            expect(known() == "revoked" && known(after: 5) == "due")
        }
    }

    @Test("Rule 142: the question for a long-lived response does not wait for those about new tokens of its client")
    func ownPlaces() async throws {
        try await Self.run(timeout: .seconds(3)) { fixture, tokens in
            let session = try require(Self.session(await Self.verify(tokens)))
            fixture.advance(by: .seconds(30))
            let count = ClientShares.alone(of: ClientQueue.maxCalls)
            let silence = Array(repeating: ScriptedServer.Act.silence, count: count)
            fixture.server.handle(Self.endpoint, silence + [.bytesThenClose(Self.response())])
            await withTaskGroup(of: Void.self) { group in
                for index in silence.indices { group.addTask { _ = await Self.verify(tokens, "new-\(index)") } }
                while fixture.requests(Self.endpoint).count <= silence.count { await Task.yield() }
                let origin = AuditContext(peer: "192.0.2.1", requestID: "r")
                expect(Self.word(await tokens.load(session, site: 0, from: origin)), equals: "active")
            }
        }
    }

    @Test("Rule 142: without introspection no question can end a token before its time")
    func longLivedJWT() async throws {
        try await ProviderFixture.run(change: Self.verifyItself) { fixture in
            let tokens = VerifiedTokens([[fixture.provider]], clock: { fixture.now })
            let token = try fixture.accessToken()
            let session = try require(Self.session(await Self.verify(tokens, token)))
            let lookup = tokens.lookup(session, now: fixture.now + .seconds(3_600))
            expect(Self.word(lookup) == "active" && fixture.requests(Self.endpoint).isEmpty)
        }
    }

    @Test("Rule 134: of an address, 20 rejected tokens are asked about, and then it gets 429 before a question")
    func budget() async throws {
        try await Self.run { fixture, tokens in
            fixture.server.respond(to: Self.endpoint, with: Self.response(["active": "false"]))
            var codes: [String] = []
            for index in 0..<100 { codes.append(Self.code(await Self.verify(tokens, "forged-\(index)"))) }
            expect(codes.prefix(20).allSatisfy { $0 == "invalid_token" } && codes.contains("rate_limited"))
            expect(fixture.requests(Self.endpoint).count, equals: codes.count { $0 == "invalid_token" })
            expect(Self.code(await Self.verify(tokens, "another", from: "192.0.2.2")), equals: "invalid_token")
        }
    }

    @Test("Rule 134: tokens that are sent at once are not asked about either, when 20 of them were rejected")
    func concurrentBudget() async throws {
        try await Self.run { fixture, tokens in
            fixture.server.respond(to: Self.endpoint, with: Self.response(["active": "false"]))
            let (start, count) = (ContinuousClock.now, 100)
            let codes = await withTaskGroup(of: String.self) { group in
                for index in 0..<count { group.addTask { Self.code(await Self.verify(tokens, "forged-\(index)")) } }
                return await group.reduce(into: [String]()) { $0.append($1) }
            }
            let permitted = 21 + 2 * Int((ContinuousClock.now - start) / .seconds(1))
            let asked = fixture.requests(Self.endpoint).count
            expect((20...permitted).contains(asked))
            expect(codes.count { $0 == "rate_limited" }, equals: count - asked)
        }
    }

    @Test("Rule 134: valid tokens of an address, old ones and those without a response use up none of its limit")
    func validTokens() async throws {
        try await Self.run { fixture, tokens in
            await withTaskGroup(of: String.self) { group in
                for index in 0..<100 {
                    group.addTask { Self.code(await Self.verify(tokens, "valid-\(index)")) }
                }
                for await code in group { expect(code, equals: "active") }
            }
            fixture.server.respond(to: Self.endpoint, with: ScriptedServer.json("{}", status: "500 Error"))
            for index in 0..<40 {
                expect(Self.code(await Self.verify(tokens, "unknown-\(index)")), equals: "identity_unavailable")
            }
            fixture.server.respond(to: Self.endpoint, with: Self.response(["exp": "1799999970"]))
            for index in 0..<40 {
                expect(Self.code(await Self.verify(tokens, "old-\(index)")), equals: "invalid_token")
            }
            // All of the burst is left.
            fixture.server.respond(to: Self.endpoint, with: Self.response(["active": "false"]))
            for index in 0..<20 {
                expect(Self.code(await Self.verify(tokens, "forged-\(index)")), equals: "invalid_token")
            }
        }
    }

    @Test(
        "Rule 135: a provider that does not respond, or not validly, is 503, and no token is rejected for it",
        arguments: [
            ScriptedServer.json("{}", status: "500 Error"), ProviderFixture.error("invalid_client", status: "401 No"),
            "HTTP/1.1 302 Found\r\nLocation: /introspect\r\nContent-Length: 0\r\n\r\n",
            ScriptedServer.json("[]"), ScriptedServer.json("{"), ScriptedServer.json(#"{"active":true,"active":true}"#),
            ScriptedServer.json(#"{"active":true,"a":"\#(String(repeating: "a", count: 65_536))"}"#), "",
        ])
    func unavailable(response: String) async throws {
        try await Self.run { fixture, tokens in
            fixture.server.handle(Self.endpoint, [response.isEmpty ? .silence : .bytesThenClose(response)])
            let start = ContinuousClock.now
            expect(Self.code(await Self.verify(tokens)), equals: "identity_unavailable")
            // The time limit is one second, and that of other calls ten.
            #expect(ContinuousClock.now - start < .seconds(8))
            expect(Self.cached(tokens, at: fixture.now) == "none" && Self.reasons(fixture).isEmpty)
            expect(fixture.events.contains(.accessToken(.unavailable)))
        }
    }

    @Test("Rule 135: a request waits no longer for the first metadata than for a response")
    func noMetadata() async throws {
        try await ProviderFixture.run(
            change: Self.ask, isReady: false,
            prepare: { server, _ in server.handle(ProviderFixture.discovery, [.silence]) }
        ) { fixture in
            let tokens = VerifiedTokens([[fixture.provider]], clock: { fixture.now })
            let start = ContinuousClock.now
            expect(Self.code(await Self.verify(tokens)), equals: "identity_unavailable")
            #expect(ContinuousClock.now - start < .seconds(8))
            expect(fixture.events.contains(.accessToken(.unavailable)))
        }
    }

    @Test(
        "Rule 136: a JWT is shown only to the provider that its iss names, and a token without an issuer to the one asked"
    )
    func severalIdentities() async throws {
        try await Self.run { asked, _ in
            func questions() -> Int { asked.requests(Self.endpoint).count }
            let key = try ScriptedKey(.es256, id: "other")
            try await ProviderFixture.run(change: Self.verifyItself, key: key) { other in
                let tokens = VerifiedTokens([[asked.provider, other.provider]], clock: { other.now })
                let own = Self.session(await Self.verify(tokens, try other.accessToken()))
                expect(own?.source, equals: other.provider.source)
                let service: (String, String?) = ("iss", #""https://elsewhere.example.com""#)
                let foreign = [
                    // Of the other identity, and rejected: another audience, another key of that name, an unknown one.
                    try other.accessToken([("aud", #""x""#)]),
                    try other.accessToken(key: try ScriptedKey(.es256, id: "other")),
                    try other.accessToken(key: try ScriptedKey(.es256, id: "x")),
                    // Of another service, whatever its header is.
                    try asked.accessToken([service]),
                    try asked.accessToken([service], header: #"{"alg":"HS256"}"#),
                    try asked.accessToken([service], header: #"{"alg":"none","alg":"none"}"#),
                    try asked.accessToken([service], header: "\n {}"),
                    // Of no readable issuer, and of two.
                    "e30.e30.YQ", "e30.YQ.YQ",
                    try asked.accessToken([("iss", nil)]), try asked.accessToken([("iss", "1")]),
                    try asked.accessToken([("iss", "[\"\(asked.issuer)\"]")]),
                    try asked.accessToken([("sub", "1,\"iss\":\"\(other.issuer)\"")]),
                ]
                for (index, text) in foreign.enumerated() {
                    let outcome = await Self.verify(tokens, text, from: "192.0.2.\(index)")
                    expect(Self.code(outcome), equals: "invalid_token", "\(text)")
                }
                expect(questions(), equals: 0)
                expect(Self.reasons(other).contains(.wrongIssuer) && Self.reasons(asked).isEmpty)
                for text in ["opaque", "e30.YQ.YQ.YQ.YQ", try asked.accessToken()] {
                    let session = Self.session(await Self.verify(tokens, text))
                    expect(session?.source, equals: asked.provider.source, "\(text)")
                }
                expect(questions(), equals: 3)
            }
            // The keys of the other identity are not available.
            try await ProviderFixture.run(
                change: Self.verifyItself, isReady: false,
                prepare: { server, _ in server.respond(to: "GET /jwks", with: ProviderFixture.error("x")) }
            ) { other in
                let tokens = VerifiedTokens([[asked.provider, other.provider]], clock: { other.now })
                let token = try other.accessToken()
                expect(Self.code(await Self.verify(tokens, token)), equals: "identity_unavailable")
                expect(questions(), equals: 3)
            }
        }
    }
}
