import NIOPosix
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomIdentity

@Suite("Verified access tokens", .serialized)
struct VerifiedTokensTests {
    private static let origin = AuditContext(peer: "192.0.2.1", requestID: "r")

    private static func accept(_ configuration: inout IdentityConfiguration) {
        var tokens = IdentityConfiguration.AccessTokens()
        tokens.audience = ["orders"]
        configuration.accessTokens = tokens
    }

    /// The value of `Authorization` with a token of the fixture's provider.
    private static func field(
        _ fixture: ProviderFixture, _ changes: [(String, String?)] = [], key: ScriptedKey? = nil, id: String = "1"
    ) throws -> Secret {
        Secret("Bearer \(try fixture.accessToken([("jti", "\"\(id)\"")] + changes, key: key))")
    }

    private static func count(_ fixture: ProviderFixture, _ outcome: AccessTokenOutcome) -> Int {
        fixture.events.count { if case .accessToken(outcome, _, _) = $0 { true } else { false } }
    }

    private static func problem(_ outcome: RefreshOutcome?) -> ProblemCode? {
        if case .failed(let problem)? = outcome { problem.code } else { nil }
    }

    private static func session(_ outcome: RefreshOutcome?) -> Session? {
        if case .active(let session)? = outcome { session } else { nil }
    }

    private static func isActive(_ outcome: RefreshOutcome?) -> Bool { session(outcome) != nil }

    private static func tokens(
        _ fixture: ProviderFixture, sites: [[OpenIDProvider]]? = nil, counts: ClientCounts = ClientCounts()
    ) -> VerifiedTokens {
        VerifiedTokens(sites ?? [[fixture.provider]], counts: counts, clock: { fixture.now })
    }

    @Test("Identity rule 44: equal requests cause one verification, and others a lookup until the token ends")
    func oneVerification() async throws {
        try await ProviderFixture.run(change: Self.accept) { fixture in
            let tokens = Self.tokens(fixture)
            let field = try Self.field(fixture)
            expect(tokens.cached(field, site: 0, now: fixture.now) == nil)
            await withTaskGroup(of: Bool.self) { group in
                for _ in 0..<2_000 {
                    group.addTask { Self.isActive(await tokens.verify(field, site: 0, from: Self.origin)) }
                }
                for await isActive in group { expect(isActive) }
            }
            expect(Self.count(fixture, .accepted), equals: 1)
            expect(Self.isActive(tokens.cached(field, site: 0, now: fixture.now)))
            expect(Self.isActive(tokens.cached(field, site: 0, now: fixture.now + .milliseconds(299_999))))
            let end = fixture.now + .seconds(300)
            expect(tokens.cached(field, site: 0, now: end) == nil)
            // What a connection has kept ends with what is known about the token.
            let key = try require(Self.session(tokens.cached(field, site: 0, now: fixture.now))).key
            expect(Self.isActive(tokens.cached(key, now: end - .milliseconds(1))))
            expect(tokens.cached(key, now: end) == nil)
            // With an earlier end than that.
            let short = try Self.field(fixture, [("exp", "\(fixture.now.milliseconds / 1_000 + 10)")])
            expect(Self.isActive(await tokens.verify(short, site: 0, from: Self.origin)))
            expect(Self.isActive(tokens.cached(short, site: 0, now: fixture.now + .milliseconds(39_999))))
            // Then it is rejected without another check, however often it is sent.
            expect(Self.problem(tokens.cached(short, site: 0, now: fixture.now + .seconds(40))), equals: .invalidToken)
            // The case of the scheme makes no other token.
            let other = Secret(bytes: Array("bEARER".utf8) + field.bytes.dropFirst(6))
            expect(Self.isActive(tokens.cached(other, site: 0, now: fixture.now)))
        }
    }

    @Test("Identity rule 40: a token is verified by the identities of its site, with the keys of its issuer")
    func sites() async throws {
        try await ProviderFixture.run(change: Self.accept, key: try ScriptedKey(.es256, id: "a")) { one in
            try await ProviderFixture.run(change: Self.accept, key: try ScriptedKey(.es256, id: "b")) { other in
                let both = [one.provider, other.provider]
                let tokens = Self.tokens(one, sites: [both, [one.provider], []])
                let field = try Self.field(other)
                expect(Self.isActive(await tokens.verify(field, site: 0, from: Self.origin)))
                expect(other.requests("GET /jwks").count == 1 && one.requests("GET /jwks").count == 1)
                // What one site knows is unknown at the others.
                expect(tokens.cached(field, site: 1, now: one.now) == nil)
                expect(Self.problem(await tokens.verify(field, site: 1, from: Self.origin)), equals: .invalidToken)
                expect(Self.problem(await tokens.verify(field, site: 2, from: Self.origin)), equals: .invalidToken)
                expect(Self.isActive(tokens.cached(field, site: 0, now: one.now)))
                // The key of one identity for the issuer of the other, and the name of the other's key.
                let foreign = try Self.field(one, [("iss", "\"\(other.issuer)\"")])
                expect(Self.problem(await tokens.verify(foreign, site: 0, from: Self.origin)), equals: .invalidToken)
                let named = try Self.field(other, key: ScriptedKey(one.key, algorithm: .es256, id: "b"))
                expect(Self.problem(await tokens.verify(named, site: 0, from: Self.origin)), equals: .invalidToken)
            }
        }
    }

    @Test(
        "Identity rule 40: forgedTokensAreRejected: no signature, a symmetric one, or a changed claim",
        arguments: ["none", "HS256", "payload"])
    func forged(kind: String) async throws {
        try await ProviderFixture.run(change: Self.accept) { fixture in
            let tokens = Self.tokens(fixture)
            var parts = String(decoding: try Self.field(fixture).bytes, as: UTF8.self).split(separator: ".").map(
                String.init)
            if kind == "payload" {
                parts[1] = Base64URL.encode(fixture.claims([("sub", #""admin""#)]).payload)
            } else {
                let header = #"{"typ":"at+jwt","alg":"\#(kind)","kid":"key-1"}"#
                parts[0] = "Bearer " + Base64URL.encode(Array(header.utf8))
                if kind == "none" { parts[2] = "" }
            }
            let field = Secret(parts.joined(separator: "."))
            expect(Self.problem(await tokens.verify(field, site: 0, from: Self.origin)), equals: .invalidToken)
            // Known for a short time, without another check.
            expect(Self.problem(tokens.cached(field, site: 0, now: fixture.now)), equals: .invalidToken)
            expect(tokens.cached(field, site: 0, now: fixture.now + .seconds(5)) == nil)
            let reasons = fixture.events.compactMap { event -> TokenRejection? in
                if case .accessToken(.rejected, let reason, _) = event { reason } else { nil }
            }
            expect(reasons, equals: [kind == "payload" ? .invalidSignature : .algorithmNotAllowed])
        }
    }

    @Test("Identity rule 42: a token of the gateway itself is reported as such")
    func ownToken() async throws {
        try await ProviderFixture.run(change: Self.accept) { fixture in
            let field = try Self.field(fixture, [("client_id", #""cloakroom""#)])
            let outcome = await Self.tokens(fixture).verify(field, site: 0, from: Self.origin)
            expect(Self.problem(outcome), equals: .invalidToken)
            expect(fixture.events.contains(.accessToken(.ownToken, .ownToken, from: Self.origin)))
            // One of another identity of the issuer, whatever their order is.
            var configuration = fixture.provider.configuration
            (configuration.client.id, configuration.accessTokens) = ("second", nil)
            let second = try OpenIDProvider(
                configuration, timeouts: TimeoutsConfiguration(), eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                clock: { fixture.now })
            let issued = try Self.field(fixture, [("client_id", #""second""#)])
            for sites in [[[fixture.provider, second]], [[second, fixture.provider]]] {
                let outcome = await Self.tokens(fixture, sites: sites).verify(issued, site: 0, from: Self.origin)
                expect(Self.problem(outcome), equals: .invalidToken)
            }
            expect(Self.count(fixture, .ownToken), equals: 3)
            await second.shutdown()
        }
    }

    @Test("Identity rule 44: forgedTokensStarveNobody: 20 of an address, then 429 before any check, and one key fetch")
    func budget() async throws {
        try await ProviderFixture.run(change: Self.accept) { fixture in
            let counts = ClientCounts()
            let tokens = Self.tokens(fixture, counts: counts)
            let valid = try Self.field(fixture, id: "valid")
            expect(Self.isActive(await tokens.verify(valid, site: 0, from: Self.origin)))
            var codes: [ProblemCode?] = []
            // Two a second are permitted again meanwhile.
            for index in 0..<60 {
                let forged = try Self.field(fixture, key: try ScriptedKey(.es256), id: "\(index)")
                codes.append(Self.problem(await tokens.verify(forged, site: 0, from: Self.origin)))
            }
            expect(codes.prefix(20).allSatisfy { $0 == .invalidToken })
            expect(codes.contains(.rateLimited))
            #expect(Self.count(fixture, .rejected) < 60)
            expect(Self.count(fixture, .limited), equals: codes.count { $0 == .rateLimited })
            expect(fixture.requests("GET /jwks").count, equals: 1)
            // A token that is known, and another address.
            expect(Self.isActive(tokens.cached(valid, site: 0, now: fixture.now)))
            let other = AuditContext(peer: "192.0.2.2", requestID: "r")
            let another = try Self.field(fixture, id: "another")
            // Without work off the event loop.
            var limited: RefreshOutcome?
            for index in 0..<200 where limited == nil {
                _ = await tokens.verify(Secret("Bearer a.c.\(index)"), site: 0, from: Self.origin)
                limited = tokens.limited(another, site: 0, from: Self.origin.peer)
            }
            expect(Self.problem(limited), equals: .rateLimited)
            expect(tokens.limited(valid, site: 0, from: Self.origin.peer) == nil)
            expect(tokens.limited(another, site: 0, from: other.peer) == nil)
            expect(Self.isActive(await tokens.verify(another, site: 0, from: other)))
            // A reload does not permit 20 more.
            let next = Self.tokens(fixture, counts: counts)
            var checked = 0
            for index in 0..<25 {
                let outcome = await next.verify(Secret("Bearer a.b.\(index)"), site: 0, from: Self.origin)
                if Self.problem(outcome) == .invalidToken { checked += 1 }
            }
            #expect(checked < 20)
        }
    }

    @Test(
        "Identity rule 44: a forged token counts if another identity of its issuer has no keys, and one with another key not",
        arguments: [0, 1])
    func undecided(position: Int) async throws {
        try await ProviderFixture.run(change: Self.accept) { fixture in
            var configuration = fixture.provider.configuration
            configuration.endpoints.base = WebOrigin("http://127.0.0.1:1")
            let other = try OpenIDProvider(
                configuration, timeouts: TimeoutsConfiguration(), eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                clock: { fixture.now })
            var both = [fixture.provider]
            both.insert(other, at: position)
            let tokens = Self.tokens(fixture, sites: [both])
            for (number, header) in [#","kid":"other""#, #","kid":"key-1""#, ""].enumerated() {
                var codes: [ProblemCode?] = []
                for index in 0..<60 {
                    let token = try fixture.accessToken(
                        [("jti", "\"\(index)\"")], key: try ScriptedKey(.es256),
                        header: #"{"typ":"at+jwt","alg":"ES256"\#(header)}"#)
                    let origin = AuditContext(peer: "192.0.2.\(number)", requestID: "r")
                    codes.append(Self.problem(await tokens.verify(Secret("Bearer \(token)"), site: 0, from: origin)))
                }
                expect(codes.prefix(20).allSatisfy { $0 == .identityUnavailable })
                expect(codes.contains(.rateLimited), equals: number > 0)
            }
            await other.shutdown()
        }
    }

    @Test("Rule 63: the requests in flight of a token count after reloads until they end, and no longer")
    func reloads() async throws {
        try await ProviderFixture.run(change: Self.accept) { fixture in
            let (counts, field) = (ClientCounts(), try Self.field(fixture))
            /// Verifies the token in a configuration that knows none.
            func session() async throws -> Session {
                let outcome = await Self.tokens(fixture, counts: counts).verify(field, site: 0, from: Self.origin)
                return try require(Self.session(outcome))
            }
            let first = try await session()
            expect(first.beginRequest(limit: 1))
            for _ in 0..<2 { try await expect(!session().beginRequest(limit: 1)) }
            first.endRequest()
            try await expect(session().beginRequest(limit: 1))
        }
    }

    @Test(
        "Identity rule 44: of 100 tokens that are sent at once all are checked, and of those that are rejected 20",
        arguments: ["valid", "forged", "wrong audience"])
    func burst(kind: String) async throws {
        try await ProviderFixture.run(change: Self.accept) { fixture in
            let (tokens, key) = (Self.tokens(fixture), kind == "forged" ? try ScriptedKey(.es256) : nil)
            let changes = kind == "wrong audience" ? [("aud", #""x""#)] : []
            let fields = try (0..<100).map {
                try Self.field(fixture, changes, key: key, id: "\($0)")
            }
            let start = ContinuousClock.now
            let codes = await withTaskGroup(of: ProblemCode?.self) { group in
                for field in fields {
                    group.addTask { Self.problem(await tokens.verify(field, site: 0, from: Self.origin)) }
                }
                return await group.reduce(into: [ProblemCode?]()) { $0.append($1) }
            }
            guard kind != "valid" else { return expect(codes.allSatisfy { $0 == nil }) }
            let permitted = 21 + 2 * Int((ContinuousClock.now - start) / .seconds(1))
            let rejected = codes.count { $0 == .invalidToken }
            expect((20...permitted).contains(rejected))
            expect(codes.count { $0 == .rateLimited }, equals: codes.count - rejected)
        }
    }

    @Test("Identity rule 44: the addresses of an IPv6 network share 320 rejected tokens, and 32 a second")
    func block() async throws {
        try await ProviderFixture.run(change: Self.accept) { fixture in
            let tokens = Self.tokens(fixture)
            func reject(_ peer: String) async -> ProblemCode? {
                let origin = AuditContext(peer: peer, requestID: "r")
                return Self.problem(await tokens.verify(Secret("Bearer a.b.\(peer)"), site: 0, from: origin))
            }
            var codes: [ProblemCode?] = []
            for index in 1...800 { codes.append(await reject("2001:db8:0:\(String(index, radix: 16))::1")) }
            expect(codes.prefix(320).allSatisfy { $0 == .invalidToken })
            expect(codes.contains(.rateLimited))
            await expect(reject("2001:db8:1:1::1"), equals: .invalidToken)
        }
    }

    @Test("Identity rule 44: entries are bounded by number and memory, and those in use remain")
    func bounded() {
        let used = SessionKey(0, 0, 0, 0)
        for size in [1, VerifiedTokens.maxBytes / 1_000] {
            var entries = RecentEntries<Int>.State(maxEntries: VerifiedTokens.maxEntries)
            entries.insert(0, size: size, at: used)
            for index in 1...30_000 {
                entries.insert(index, size: size, at: SessionKey(0, UInt64(index), 0, 0))
                guard entries[used] == 0, index % 1_000 != 0 else {
                    expect(entries[used], equals: 0)
                    let all = Array(entries.newer.values) + Array(entries.older.values)
                    #expect(all.count <= VerifiedTokens.maxEntries)
                    #expect(all.reduce(0) { $0 + $1.size } <= VerifiedTokens.maxBytes)
                    continue
                }
            }
            expect(entries[SessionKey(0, 1, 0, 0)], equals: nil)
            // To be released without the lock.
            expect(!entries.displaced.isEmpty)
        }
        var entries = RecentEntries<Int>.State(maxEntries: VerifiedTokens.maxEntries)
        for value in 1...2 { entries.insert(value, size: 5, at: used) }
        expect(entries.newerBytes == 5 && entries[used] == 2)
    }

    @Test("Identity rule 44: the memory for the assertions about a token is counted")
    func assertions() async throws {
        try await ProviderFixture.run(change: Self.accept) { fixture in
            // Beyond 8 for a session, earlier ones are dropped.
            let tokens = VerifiedTokens([[fixture.provider]], assertions: 100, clock: { fixture.now })
            let first = try Self.field(fixture, id: "first")
            expect(Self.isActive(await tokens.verify(first, site: 0, from: Self.origin)))
            // 16 KiB for each, of two times 16 MiB.
            for index in 0..<2_000 {
                let next = try Self.field(fixture, id: "\(index)")
                expect(Self.isActive(await tokens.verify(next, site: 0, from: Self.origin)))
            }
            expect(tokens.cached(first, site: 0, now: fixture.now) == nil)
        }
    }

    @Test("A provider without keys is 503, and a token is checked again with other keys")
    func keys() async throws {
        try await ProviderFixture.run(change: Self.accept) { fixture in
            let tokens = Self.tokens(fixture)
            let field = try Self.field(fixture)
            expect(Self.isActive(await tokens.verify(field, site: 0, from: Self.origin)))
            // A fetch of equal keys, caused by the provider itself.
            let unknown = try Self.field(fixture, key: try ScriptedKey(.es256, id: "key-3"))
            let text = Array(unknown.bytes.dropFirst(7))
            let check = try? await fixture.provider.keys.verify(text, from: .tokenEndpoint) { $0 }
            expect(check == nil && fixture.requests("GET /jwks").count == 2)
            expect(Self.isActive(tokens.cached(field, site: 0, now: fixture.now)))
            let next = try ScriptedKey(.es256, id: "key-2")
            fixture.server.respond(to: "GET /jwks", with: ProviderFixture.keySet([try next.jwk()]))
            // An unknown key fetches the keys, of which the first one is not any more.
            expect(Self.isActive(await tokens.verify(try Self.field(fixture, key: next), site: 0, from: Self.origin)))
            expect(tokens.cached(field, site: 0, now: fixture.now) == nil)
            expect(Self.problem(await tokens.verify(field, site: 0, from: Self.origin)), equals: .invalidToken)
            expect(Self.problem(tokens.cached(field, site: 0, now: fixture.now)), equals: .invalidToken)
        }
        try await ProviderFixture.run(
            change: Self.accept, isReady: false,
            prepare: { server, _ in server.respond(to: "GET /jwks", with: ProviderFixture.error("x")) }
        ) { fixture in
            let outcome = await Self.tokens(fixture).verify(try Self.field(fixture), site: 0, from: Self.origin)
            expect(Self.problem(outcome), equals: .identityUnavailable)
        }
    }
}
