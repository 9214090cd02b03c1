import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomIdentity

@Suite("Access tokens that are bound to a key", .serialized)
struct BoundTokensTests {
    private static let origin = AuditContext(peer: "192.0.2.1", requestID: "r")

    private static func run(
        _ binding: IdentityConfiguration.AccessTokens.Binding = .optional,
        _ body: (ProviderFixture, VerifiedTokens) async throws -> Void
    ) async throws {
        try await ProviderFixture.run(change: {
            $0.accessTokens = .init()
            $0.accessTokens?.audience = ["orders"]
            $0.accessTokens?.dpop = binding
        }) { fixture in
            let proofs = TokenProofs(sealing: KeyedSealing())
            try await body(
                fixture,
                VerifiedTokens(
                    [[fixture.provider]], origins: [ProvingClient.origin], proofs: proofs, clock: { fixture.now }))
        }
    }

    /// A token of the fixture's provider. `cnf` is JSON; `nil` for none.
    private static func token(
        _ fixture: ProviderFixture, _ cnf: String?, type: String = "at+jwt", id: Int = 0
    ) throws -> String {
        let claims = fixture.claims([
            ("aud", #""orders""#), ("client_id", #""batch""#), ("nonce", nil), ("cnf", cnf), ("jti", "\"\(id)\""),
        ])
        let header = #"{"typ":"\#(type)","alg":"ES256","kid":"key-1"}"#
        let payload = String(decoding: claims.payload, as: UTF8.self)
        return String(decoding: try fixture.key.token(payload, header: header), as: UTF8.self)
    }

    private static func cnf(_ client: ProvingClient) throws -> String {
        #"{"jkt":"\#(Base64URL.encode(try client.thumbprint()))"}"#
    }

    private static func code(_ outcome: RefreshOutcome?) -> String {
        switch outcome {
        case .active?: "active"
        case .failed(let problem)?: problem.code.rawValue
        default: "none"
        }
    }

    private static func verify(_ tokens: VerifiedTokens, _ token: String, _ proof: TokenProof?) async -> String {
        code(await tokens.verify(Secret("Bearer " + token), proof: proof, site: 0, from: origin))
    }

    @Test("Identity rule 46: boundTokenNeedsItsProof: as Bearer it is 401, and so is another token with a proof")
    func boundTokenNeedsItsProof() async throws {
        let client = try ProvingClient()
        try await Self.run { fixture, tokens in
            let bound = try Self.token(fixture, try Self.cnf(client))
            await expect(Self.verify(tokens, bound, nil), equals: "invalid_token")
            let proof = try client.proof(of: bound, at: fixture.now)
            await expect(Self.verify(tokens, bound, proof), equals: "active")
            // The token is known, and each request has its proof.
            expect(
                Self.code(tokens.cached(Secret("Bearer " + bound), site: 0, now: fixture.now)), equals: "invalid_token")
            await expect(Self.verify(tokens, bound, nil), equals: "invalid_token")
            await expect(Self.verify(tokens, bound, proof), equals: "invalid_dpop_proof")
            let late = try client.proof(of: bound, at: fixture.now - .seconds(61), id: "2")
            await expect(Self.verify(tokens, bound, late), equals: "use_dpop_nonce")
            let nonce = try require(tokens.nonce(site: 0, now: fixture.now))
            let renewed = try client.proof(of: bound, at: fixture.now, id: "3", [("nonce", "\"\(nonce)\"")])
            await expect(Self.verify(tokens, bound, renewed), equals: "active")
            expect(Self.count(fixture, .accepted), equals: 1)
            let free = try Self.token(fixture, nil)
            await expect(
                Self.verify(tokens, free, try client.proof(of: free, at: fixture.now)), equals: "invalid_token")
            await expect(Self.verify(tokens, free, nil), equals: "active")
        }
    }

    @Test(
        "Identity rule 46: what `dpop` permits",
        arguments: [
            (.off, "invalid_token", "active", false), (.optional, "active", "active", true),
            (.required, "active", "invalid_token", true),
        ] as [(IdentityConfiguration.AccessTokens.Binding, String, String, Bool)])
    func modes(row: (IdentityConfiguration.AccessTokens.Binding, String, String, Bool)) async throws {
        let client = try ProvingClient()
        try await Self.run(row.0) { fixture, tokens in
            let bound = try Self.token(fixture, try Self.cnf(client))
            await expect(Self.verify(tokens, bound, try client.proof(of: bound, at: fixture.now)), equals: row.1)
            await expect(Self.verify(tokens, try Self.token(fixture, nil), nil), equals: row.2)
            expect(tokens.nonce(site: 0, now: fixture.now) != nil, equals: row.3)
        }
    }

    @Test(
        "Identity rule 46: a token with another kind of key, or a second one, is rejected",
        arguments: [
            "{}", "null", "[]", #"{"jkt":1}"#, #"{"jkt":""}"#, #"{"jkt":"AAAA"}"#, #"{"x5t#S256":"AAAA"}"#,
            "JKT,\"x5t#S256\":\"AAAA\"}", "JKT,\"jwk\":{}}",
        ])
    func otherKeys(cnf: String) async throws {
        let client = try ProvingClient()
        let own = String(try Self.cnf(client).dropLast())
        try await Self.run { fixture, tokens in
            let token = try Self.token(fixture, cnf.replacing("JKT", with: own))
            await expect(
                Self.verify(tokens, token, try client.proof(of: token, at: fixture.now)), equals: "invalid_token")
        }
    }

    private static func verify(_ tokens: VerifiedTokens, _ all: [(String, TokenProof?)]) async -> [String] {
        var codes: [String] = []
        for (token, proof) in all {
            let code = await verify(tokens, token, proof)
            codes.append(code)
        }
        return codes
    }

    private static func count(_ fixture: ProviderFixture, _ outcome: AccessTokenOutcome) -> Int {
        fixture.events.count { if case .accessToken(outcome, _, _) = $0 { true } else { false } }
    }

    @Test("Identity rule 48: 20 forged proofs of an address and a key, then 429 before any check; others are served")
    func budget() async throws {
        let (client, other) = (try ProvingClient(), try ProvingClient())
        try await Self.run { fixture, tokens in
            let bound = try Self.token(fixture, try Self.cnf(client))
            let forged = try (0..<60).map {
                try other.proof(of: bound, at: fixture.now, id: "\($0)", header: [("jwk", try client.jwk())])
            }
            let codes = await Self.verify(tokens, forged.map { (bound, $0) })
            expect(codes.prefix(20).allSatisfy { $0 == "invalid_dpop_proof" })
            expect(codes.contains("rate_limited"))
            let limited = codes.count { $0 == "rate_limited" }
            expect(Self.count(fixture, .limited), equals: limited)
            // Another key at the address, and the key at another address.
            let own = try Self.token(fixture, try Self.cnf(other))
            await expect(Self.verify(tokens, own, try other.proof(of: own, at: fixture.now)), equals: "active")
            let elsewhere = AuditContext(peer: "192.0.2.2", requestID: "r")
            let proof = try client.proof(of: bound, at: fixture.now)
            let outcome = await tokens.verify(Secret("Bearer " + bound), proof: proof, site: 0, from: elsewhere)
            expect(Self.code(outcome), equals: "active")
        }
    }

    @Test(
        "Identity rule 44: bound tokens as Bearer, or others as DPoP: 20 of an address, and then 429 before any check",
        arguments: [true, false])
    func charged(isBound: Bool) async throws {
        let client = try ProvingClient()
        try await Self.run { fixture, tokens in
            let cnf: String? = if isBound { try Self.cnf(client) } else { nil }
            let all = try (0..<60).map { index -> (String, TokenProof?) in
                let token = try Self.token(fixture, cnf, id: index)
                if isBound { return (token, nil) }
                return (token, try client.proof(of: token, at: fixture.now, id: "\(index)"))
            }
            let codes = await Self.verify(tokens, all)
            expect(codes.prefix(20).allSatisfy { $0 == "invalid_token" })
            expect(codes.contains("rate_limited"))
            let accepted = codes.count { $0 == "invalid_token" }
            expect(Self.count(fixture, .accepted) == accepted && accepted < 60)
            let elsewhere = AuditContext(peer: "192.0.2.2", requestID: "r")
            let free = try Self.token(fixture, nil, id: 60)
            let outcome = await tokens.verify(Secret("Bearer " + free), site: 0, from: elsewhere)
            expect(Self.code(outcome), equals: "active")
        }
    }

    @Test("Identity rule 48: a known token without a key is limited as DPoP, and neither others nor itself as Bearer")
    func known() async throws {
        let client = try ProvingClient()
        try await Self.run { fixture, tokens in
            let free = try Self.token(fixture, nil)
            let all = try (0..<60).map { index -> (String, TokenProof?) in
                (free, try client.proof(of: free, at: fixture.now, id: "\(index)"))
            }
            let codes = await Self.verify(tokens, all)
            // One of the address, as the token was not known, and 20 of the token.
            expect(codes.prefix(21).allSatisfy { $0 == "invalid_token" })
            expect(codes.contains("rate_limited"))
            await expect(Self.verify(tokens, free, nil), equals: "active")
            let other = try Self.token(fixture, nil, id: 1)
            await expect(Self.verify(tokens, other, nil), equals: "active")
        }
    }

    @Test("A request with a known token counts once: as cached with a valid proof, and otherwise as rejected")
    func counted() async throws {
        let client = try ProvingClient()
        try await Self.run { fixture, tokens in
            let bound = try Self.token(fixture, try Self.cnf(client))
            let free = try Self.token(fixture, nil)
            let proof = try client.proof(of: bound, at: fixture.now)
            let next = try client.proof(of: bound, at: fixture.now, id: "2")
            let late = try client.proof(of: bound, at: fixture.now - .seconds(61), id: "3")
            let ofFree = try client.proof(of: free, at: fixture.now)
            // The code, and then the requests that were counted as accepted, cached and rejected so far.
            let rows: [(token: String, proof: TokenProof?, code: String, counts: [Int])] = [
                (bound, proof, "active", [1, 0, 0]), (bound, next, "active", [1, 1, 0]),
                (bound, proof, "invalid_dpop_proof", [1, 1, 1]), (bound, late, "use_dpop_nonce", [1, 2, 1]),
                (free, nil, "active", [2, 2, 1]), (free, ofFree, "invalid_token", [2, 2, 2]),
            ]
            for (index, row) in rows.enumerated() {
                let code = await Self.verify(tokens, row.token, row.proof)
                let counts = [AccessTokenOutcome.accepted, .cached, .rejected].map { Self.count(fixture, $0) }
                expect(code == row.code && counts == row.counts, "\(index): \(code), \(counts)")
            }
            // As Bearer, on an event loop.
            expect(
                Self.code(tokens.cached(Secret("Bearer " + bound), site: 0, now: fixture.now)), equals: "invalid_token")
            expect(Self.count(fixture, .cached) == 2 && Self.count(fixture, .rejected) == 3)
        }
    }

    @Test("Identity rule 48: of forged proofs that are sent at once, no more are checked than one after the other")
    func concurrentBudget() async throws {
        let (client, other) = (try ProvingClient(), try ProvingClient())
        try await Self.run { fixture, tokens in
            let bound = try Self.token(fixture, try Self.cnf(client))
            await expect(Self.verify(tokens, bound, try client.proof(of: bound, at: fixture.now)), equals: "active")
            let forged = try (0..<100).map {
                try other.proof(of: bound, at: fixture.now, id: "\($0)", header: [("jwk", try client.jwk())])
            }
            let start = ContinuousClock.now
            let codes = await withTaskGroup(of: String.self) { group in
                for proof in forged { group.addTask { await Self.verify(tokens, bound, proof) } }
                return await group.reduce(into: [String]()) { $0.append($1) }
            }
            let permitted = 21 + 2 * Int((ContinuousClock.now - start) / .seconds(1))
            let checked = codes.count { $0 == "invalid_dpop_proof" }
            expect((20...permitted).contains(checked))
            expect(codes.count { $0 == "rate_limited" }, equals: forged.count - checked)
        }
    }
}
