import Crypto
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomIdentity

/// A client with a key of its own, whose proofs are for `GET https://api.example.com/orders/1?a=b`.
struct ProvingClient: Sendable {
    static let origin = WebOrigin("https://api.example.com")
    let key: ScriptedKey

    init(_ algorithm: SignatureAlgorithm = .es256) throws { key = try ScriptedKey(algorithm, id: nil) }

    /// The public key without other members, and its thumbprint.
    func jwk(_ more: String = "") throws -> String { try key.jwk(more: more, hasAlgorithm: false) }
    func thumbprint() throws -> [UInt8] {
        let value = try require(JSONValue(document: Array(try jwk().utf8)))
        return try JSONWebKey(value).material.thumbprint
    }

    /// - Parameters:
    ///   - claims: Members to replace, each JSON; `nil` removes one.
    ///   - header: The same of the header.
    func proof(
        of token: String, at now: WallTime, id: String = "1", _ claims: [(String, String?)] = [],
        header: [(String, String?)] = [], method: String = "GET", path: String = "/orders/1"
    ) throws -> TokenProof {
        func object(_ members: [(String, String?)]) -> String {
            let last = Dictionary(members) { $1 }.compactMapValues(\.self)
            return "{\(last.map { "\"\($0)\":\($1)" }.joined(separator: ","))}"
        }
        let hash = Base64URL.encode(Array(SHA256.hash(data: Array(token.utf8))))
        let payload = object(
            [
                ("htm", #""GET""#), ("htu", #""https://api.example.com/orders/1""#), ("ath", "\"\(hash)\""),
                ("jti", "\"\(id)\""), ("iat", "\(now.milliseconds / 1_000)"),
            ] + claims)
        let head = object(
            [("typ", #""dpop+jwt""#), ("alg", "\"\(key.algorithm.rawValue)\""), ("jwk", try jwk())] + header)
        return TokenProof(
            text: try key.token(payload, header: head), method: Array(method.utf8), path: Array(path.utf8))
    }
}

@Suite("Proofs of the keys of access tokens")
struct TokenProofsTests {
    private static let now = WallTime(seconds: 1_800_000_000)

    private static func check(
        _ proofs: TokenProofs, _ proof: TokenProof, _ client: ProvingClient, now: WallTime = Self.now
    ) async throws -> TokenProofs.Result? {
        let origin = try require(ProvingClient.origin)
        return await proofs.check(
            proof, of: Array("t".utf8), key: try client.thumbprint(), at: origin, now: now)
    }

    private static func proofs() -> TokenProofs { TokenProofs(sealing: KeyedSealing()) }

    @Test("Identity rule 46: each algorithm of a client", arguments: [SignatureAlgorithm.es256, .edDSA, .rs256])
    func algorithms(algorithm: SignatureAlgorithm) async throws {
        let client = try ProvingClient(algorithm)
        let proof = try client.proof(of: "t", at: Self.now)
        try await expect(Self.check(Self.proofs(), proof, client), equals: .valid)
    }

    @Test("Identity rule 46: a client has no RSA key that is expensive to check")
    func expensiveKey() {
        let usual: [UInt8] = [1, 0, 1]
        let keys: [(Int, [UInt8])] = [(256, usual), (512, usual), (513, usual), (256, [0xff, 0xff, 0xff, 0xff])]
        let fits = keys.map { count, exponent in
            JSONWebKey.Material.rsa(modulus: [UInt8](repeating: 0xff, count: count), exponent: exponent).isFitForClients
        }
        expect(fits, equals: [true, true, false, false])
    }

    @Test("RFC 7638 §3.1: the thumbprint of the example")
    func thumbprint() throws {
        // A key of RFC 9449 §4.1, and `jkt` of §6.1.
        let key = #"""
            {"kty":"EC","x":"l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs","y":"9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA",
            "crv":"P-256"}
            """#
        let value = try require(JSONValue(document: Array(key.utf8)))
        let thumbprint = try JSONWebKey(value).material.thumbprint
        expect(Base64URL.encode(thumbprint), equals: "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I")
    }

    typealias Row = (claims: [(String, String?)], header: [(String, String?)])

    private static let invalid: [Row] = [
        ([("htm", nil)], []), ([("htm", #""POST""#)], []), ([("htm", #""get""#)], []),
        ([("htu", nil)], []), ([("htu", #""https://api.example.com/orders/2""#)], []),
        ([("htu", #""https://api.example.com/orders""#)], []), ([("htu", #""http://api.example.com/orders/1""#)], []),
        ([("htu", #""https://evil.example.com/orders/1""#)], []), ([("htu", #""/orders/1""#)], []),
        ([("htu", #""https://api.example.com:8443/orders/1""#)], []),
        ([("htu", #""https://api.example.com@evil.example.com/orders/1""#)], []),
        ([("ath", nil)], []), ([("ath", #""x""#)], []), ([("jti", nil)], []), ([("jti", #""""#)], []),
        ([("iat", nil)], []), ([("iat", #""1800000000""#)], []), ([("iat", "1e308")], []), ([("iat", "-1")], []),
        ([("htu", #""https://api.example.com:18446744073709551617/orders/1""#)], []), ([("htu", #""https://""#)], []),
        ([], [("typ", nil)]), ([], [("typ", #""JWT""#)]), ([], [("typ", #""dbsc+jwt""#)]),
        ([], [("alg", #""none""#)]), ([], [("alg", #""HS256""#)]), ([], [("alg", #""ES384""#)]),
        ([], [("alg", #""EdDSA""#)]), ([], [("jwk", nil)]), ([], [("crit", #"["b64"]"#)]),
    ]

    @Test("Identity rule 46: everyMemberHasItsRejection", arguments: invalid)
    func everyMemberHasItsRejection(row: Row) async throws {
        let client = try ProvingClient()
        let proof = try client.proof(of: "t", at: Self.now, row.claims, header: row.header)
        try await expect(Self.check(Self.proofs(), proof, client), equals: .rejected(.invalidProof))
    }

    @Test("Identity rule 46: of another token, method, path or key, altered, with a private key, absent or too long")
    func others() async throws {
        let (client, other) = (try ProvingClient(), try ProvingClient())
        let valid = try client.proof(of: "t", at: Self.now)
        var altered = valid
        altered.text?[20] ^= 1
        var all = [
            try client.proof(of: "u", at: Self.now), try client.proof(of: "t", at: Self.now, method: "POST"),
            try client.proof(of: "t", at: Self.now, path: "/orders/2"), try other.proof(of: "t", at: Self.now),
            // The key of the token, and a signature of another one.
            try other.proof(of: "t", at: Self.now, header: [("jwk", try client.jwk())]),
            try client.proof(of: "t", at: Self.now, header: [("jwk", try client.jwk(#","d":"AQAB""#))]), altered,
            TokenProof(text: nil, method: valid.method, path: valid.path),
        ]
        all.append(TokenProof(text: [], method: valid.method, path: valid.path))
        let proofs = Self.proofs()
        for proof in all {
            try await expect(Self.check(proofs, proof, client), equals: .rejected(.invalidProof))
        }
        try await expect(Self.check(proofs, valid, client), equals: .valid)
    }

    @Test(
        "Identity rule 46: the query and the fragment are ignored, and spellings with the same normal form are the same",
        arguments: [
            "https://api.example.com/orders/1?x=/", "https://api.example.com/orders/1#f",
            "https://API.example.com:443/orders/1",
            "https://api.example.com/%6frders/1",
        ])
    func target(htu: String) async throws {
        let client = try ProvingClient()
        let proof = try client.proof(of: "t", at: Self.now, [("htu", "\"\(htu)\"")])
        try await expect(Self.check(Self.proofs(), proof, client), equals: .valid)
    }

    @Test("Identity rule 47: proofIsUsedOnce: for a minute before and after its time, and not by another id or key")
    func proofIsUsedOnce() async throws {
        let (client, other, proofs) = (try ProvingClient(), try ProvingClient(), Self.proofs())
        // A client whose clock is ahead, so that the proof is acceptable for two minutes.
        let early = try client.proof(of: "t", at: Self.now + .seconds(60))
        try await expect(Self.check(proofs, early, client), equals: .valid)
        for seconds in [0, 60, 119, 120] {
            let now = Self.now + .seconds(seconds)
            try await expect(Self.check(proofs, early, client, now: now), equals: .rejected(.repeatedProof))
        }
        try await expect(Self.check(proofs, early, client, now: Self.now + .seconds(121)), equals: .needsNonce)
        try await expect(Self.check(proofs, try other.proof(of: "t", at: Self.now), other), equals: .valid)
        try await expect(Self.check(proofs, try client.proof(of: "t", at: Self.now, id: "2"), client), equals: .valid)
        for seconds in [-61, 61] {
            let proof = try client.proof(of: "t", at: Self.now + .seconds(seconds), id: "3")
            try await expect(Self.check(proofs, proof, client), equals: .needsNonce)
        }
    }

    @Test("Identity rule 47: a nonce is valid for five minutes at each replica, whatever the clock of the client is")
    func nonces() async throws {
        let (client, one, another) = (try ProvingClient(), Self.proofs(), Self.proofs())
        let nonce = try require(one.nonce(now: Self.now))
        func proof(_ id: String, nonce: String) throws -> TokenProof {
            try client.proof(of: "t", at: WallTime(seconds: 5), id: id, [("nonce", "\"\(nonce)\"")])
        }
        for proofs in [one, another] {
            let late = Self.now + .seconds(300)
            try await expect(Self.check(proofs, try proof("1", nonce: nonce), client, now: late), equals: .valid)
            let again = try await Self.check(proofs, try proof("1", nonce: nonce), client, now: late)
            expect(again, equals: .rejected(.repeatedProof))
        }
        // Late, from the future, and of others.
        let later = Self.now + .seconds(301)
        try await expect(Self.check(one, try proof("2", nonce: nonce), client, now: later), equals: .needsNonce)
        let early = Self.now - .seconds(31)
        try await expect(Self.check(one, try proof("3", nonce: nonce), client, now: early), equals: .needsNonce)
        for other in ["", "x", String(nonce.dropLast()), nonce + nonce] {
            try await expect(Self.check(one, try proof("4", nonce: other), client), equals: .needsNonce)
        }
        let sealed = KeyedSealing().seal(UInt64(Self.now.milliseconds).bigEndianBytes, name: "device challenge")
        let foreign = Base64URL.encode(try require(sealed))
        try await expect(Self.check(one, try proof("5", nonce: foreign), client), equals: .needsNonce)
    }

    @Test("Identity rule 47: responses within 100 ms have the same nonce, also if the clock is set back")
    func sharedNonce() {
        let proofs = Self.proofs()
        let first = proofs.nonce(now: Self.now)
        expect(first != nil && proofs.nonce(now: Self.now + .milliseconds(99)) == first)
        let next = proofs.nonce(now: Self.now + .milliseconds(100))
        expect(next != nil && next != first)
        expect(proofs.nonce(now: Self.now) != next)
    }

    @Test("Identity rule 48: of the proofs that wait, those beyond 1,000 are not checked")
    func waiting() async throws {
        let (client, proofs) = (try ProvingClient(), Self.proofs())
        let proof = try client.proof(of: "t", at: Self.now)
        let others = (0..<ClientShares.maxWaiting).map { RateKey(peer: "10.0.\($0 / 256).\($0 % 256)") }
        // One is being checked, and the others wait.
        await expect(proofs.queue.enter(others[0]))
        expect(others.allSatisfy { proofs.queue.waiting.take($0) })
        try await expect(Self.check(proofs, proof, client), equals: nil)
        await proofs.queue.leave(others[0])
        try await expect(Self.check(proofs, proof, client), equals: .valid)
        expect(proofs.queue.waiting.count == others.count && proofs.queue.inFlight.count == 0)
    }

    @Test("Identity rule 48: of the proofs that wait, those beyond the share of a client are not checked; others are")
    func share() async throws {
        let (client, proofs) = (try ProvingClient(), Self.proofs())
        let (one, other) = (RateKey(peer: "2001:db8:1:2::1"), RateKey(peer: "2001:db8:1:3::1"))
        let (origin, key) = (try require(ProvingClient.origin), try client.thumbprint())
        @Sendable func check(_ id: String, from address: RateKey) async throws -> TokenProofs.Result? {
            let proof = try client.proof(of: "t", at: Self.now, id: id)
            return await proofs.check(
                proof, of: Array("t".utf8), key: key, at: origin, from: address, now: Self.now)
        }
        let busy = RateKey(peer: "192.0.2.1")
        await expect(proofs.queue.enter(busy))
        let share = proofs.queue.waiting.takeAll("2001:db8:1:2::1")
        try await expect(check("1", from: RateKey(peer: "2001:db8:1:2::2")), equals: nil)
        async let second = check("2", from: other)
        try await eventually("it waits") { proofs.queue.waiting.count == share + 1 }
        await proofs.queue.leave(busy)
        try await expect(second, equals: .valid)
        try await expect(check("3", from: one), equals: .valid)
        expect(proofs.queue.waiting.count == share && proofs.queue.inFlight.count == 0)
    }

    @Test("Identity rule 47: fullTableForgetsNoProof: what is forgotten needs a later nonce, and memory is bounded")
    func fullTableForgetsNoProof() {
        var accepted = AcceptedProofs()
        expect(accepted.limit, equals: 16_384)
        accepted.limit = 256
        func key(_ index: Int) -> SessionKey { SessionKey(UInt64(index), 0, 0, 0) }
        func time(_ index: Int) -> WallTime { Self.now + .milliseconds(index) }
        let count = 4 * accepted.limit
        for index in 1...count {
            guard accepted.insert(key(index), time: time(index), now: Self.now) == .valid else {
                Issue.record("proof \(index) is new")
                break
            }
        }
        #expect(accepted.newer.proofs.count + accepted.older.proofs.count <= 2 * accepted.limit)
        // None is accepted again: known, or as old as one that was forgotten.
        for index in 1...count where accepted.insert(key(index), time: time(index), now: Self.now) == .valid {
            Issue.record("proof \(index) was accepted twice")
            break
        }
        expect(accepted.insert(key(1), time: time(1), now: Self.now), equals: .needsNonce)
        expect(accepted.insert(key(count), time: time(count), now: Self.now), equals: .rejected(.repeatedProof))
        expect(accepted.insert(key(count + 1), time: time(1), now: Self.now), equals: .needsNonce)
        // A client repeats its request with a new nonce, and is served.
        expect(accepted.insert(key(count + 2), time: time(count), now: Self.now), equals: .valid)
    }

    @Test("Identity rule 47: two minutes after a clock that was far ahead was set back, proofs are accepted again")
    func clockSetBack() {
        var accepted = AcceptedProofs()
        accepted.limit = 4
        var count: UInt64 = 0
        func insert(at now: WallTime) -> TokenProofs.Result {
            count += 1
            return accepted.insert(SessionKey(count, 0, 0, 0), time: now, now: now)
        }
        for index in 0..<12 { expect(insert(at: Self.now + .seconds(86_400 + index)), equals: .valid) }
        expect(insert(at: Self.now), equals: .needsNonce)
        expect(insert(at: Self.now + .seconds(120)), equals: .needsNonce)
        for index in 1...12 { expect(insert(at: Self.now + .seconds(120 + index)), equals: .valid) }
    }
}
