import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

/// Rules 12 and 15 of the design of identities, as far as keys and signatures.
@Suite("Signatures of tokens")
struct SignatureKeySetTests {
    private static let all = Set(SignatureAlgorithm.allCases)

    private func keys(
        _ keys: [String], algorithms: Set<SignatureAlgorithm> = SignatureKeySetTests.all
    ) throws -> SignatureKeySet {
        try SignatureKeySet(document: keySetDocument(keys), algorithms: algorithms)
    }

    @Test("A signature of each algorithm is verified", arguments: SignatureAlgorithm.allCases)
    func algorithms(algorithm: SignatureAlgorithm) throws {
        let key = try ScriptedKey(algorithm)
        let token = try key.token(#"{"sub":"jo"}"#)
        for hasAlgorithm in [true, false] {
            let keys = try keys([try key.jwk(hasAlgorithm: hasAlgorithm)])
            let verified = try keys.verify(token)
            expect(verified.claims, equals: ["sub": .string("jo")])
            expect(verified.algorithm, equals: algorithm)
        }
    }

    @Test("Any changed byte of a token is rejected", arguments: [SignatureAlgorithm.rs256, .ps256, .es256, .edDSA])
    func forgedBytes(algorithm: SignatureAlgorithm) throws {
        let key = try ScriptedKey(algorithm)
        let keys = try keys([try key.jwk()])
        let token = try key.token(#"{"sub":"jo"}"#)
        for position in token.indices {
            var forged = token
            forged[position] = token[position] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            expect(rejection(try keys.verify(forged)) != nil, "position \(position)")
        }
    }

    @Test("A signature of a wrong length is rejected", arguments: SignatureAlgorithm.allCases)
    func signatureLength(algorithm: SignatureAlgorithm) throws {
        let key = try ScriptedKey(algorithm)
        let keys = try keys([try key.jwk()])
        let token = try key.token("{}")
        let end = try require(token.lastIndex(of: UInt8(ascii: "."))) + 1
        let signature = try require(Base64URL.decode(token[end...]))
        let others: [[UInt8]] = [
            [], [0], signature.dropLast(), signature + [0], [0] + signature, signature + signature,
        ]
        for other in others {
            let forged = token[..<end] + Array(Base64URL.encode(other).utf8)
            expect(rejection(try keys.verify(Array(forged))), equals: .invalidSignature, "\(other.count) bytes")
        }
    }

    @Test("Claims behind an invalid signature are not parsed")
    func payloadIsClosed() throws {
        let key = try ScriptedKey(.es256)
        let other = try ScriptedKey(.es256)
        let keys = try keys([try key.jwk()])
        expect(rejection(try keys.verify(try other.token("not JSON"))), equals: .invalidSignature)
        expect(rejection(try keys.verify(try key.token("not JSON"))), equals: .invalidPayload)
        expect(rejection(try keys.verify(try key.token("[]"))), equals: .invalidPayload)
        expect(rejection(try keys.verify(try key.token(#"{"sub":"a","sub":"b"}"#))), equals: .invalidPayload)
    }

    // MARK: - Choice of the key

    @Test("Identity rule 12: the kid of a token selects the key, and an unknown one selects none")
    func unknownKeyIsNotTheFirst() throws {
        let first = try ScriptedKey(.es256, id: "first")
        let second = try ScriptedKey(.es256, id: "second")
        let keys = try keys([try first.jwk(), try second.jwk()])
        expect(rejection(try keys.verify(try second.token("{}"))), equals: nil)
        let renamed = ScriptedKey(first, algorithm: .es256, id: "third")
        expect(rejection(try keys.verify(try renamed.token("{}"))), equals: .unknownKey)
        let swapped = ScriptedKey(first, algorithm: .es256, id: "second")
        expect(rejection(try keys.verify(try swapped.token("{}"))), equals: .invalidSignature)
        let decomposed = ScriptedKey(first, algorithm: .es256, id: "\u{212a}")
        let kelvin = try self.keys([try ScriptedKey(first, algorithm: .es256, id: "K").jwk()])
        expect(rejection(try kelvin.verify(try decomposed.token("{}"))), equals: .unknownKey)
    }

    @Test("Identity rule 12: without a kid the one key that fits is used, and none of several")
    func withoutKeyID() throws {
        let key = try ScriptedKey(.es256, id: "a")
        let anonymous = ScriptedKey(key, algorithm: .es256, id: nil)
        let token = try anonymous.token("{}")
        let rsa = try ScriptedKey(.rs256, id: "b")
        let other = try ScriptedKey(.es256, id: "c")
        func result(_ jwks: [String], _ token: [UInt8]) throws -> TokenRejection? {
            let keys = try keys(jwks)
            return rejection(try keys.verify(token))
        }
        try expect(result([key.jwk(), rsa.jwk()], token), equals: nil)
        try expect(result([anonymous.jwk(), rsa.jwk()], token), equals: nil)
        try expect(result([key.jwk(), other.jwk()], token), equals: .ambiguousKey)
        try expect(result([key.jwk(), key.jwk()], token), equals: nil)
        try expect(result([rsa.jwk()], token), equals: .unknownKey)
        try expect(result([other.jwk()], token), equals: .invalidSignatureWithoutKeyID)
        try expect(result([anonymous.jwk()], key.token("{}")), equals: .unknownKey)
    }

    @Test("Identity rule 12: the algorithm of a key and its type bind the algorithm of a token")
    func keyConfusion() throws {
        let rs256 = try ScriptedKey(.rs256)
        let ps256 = ScriptedKey(rs256, algorithm: .ps256, id: rs256.id)
        let rs512 = ScriptedKey(rs256, algorithm: .rs512, id: rs256.id)
        let bound = try keys([try rs256.jwk()])
        expect(rejection(try bound.verify(try rs256.token("{}"))), equals: nil)
        expect(rejection(try bound.verify(try ps256.token("{}"))), equals: .unknownKey)
        let free = try keys([try rs256.jwk(hasAlgorithm: false)], algorithms: Set(SignatureAlgorithm.defaults))
        expect(rejection(try free.verify(try rs256.token("{}"))), equals: nil)
        expect(rejection(try free.verify(try ps256.token("{}"))), equals: nil)
        expect(rejection(try free.verify(try rs512.token("{}"))), equals: .algorithmNotAllowed)
        expect(
            rejection(try free.verify(try rs256.token("{}", header: #"{"alg":"ES256","kid":"key-1"}"#))),
            equals: .unknownKey)
        expect(
            rejection(try free.verify(try rs256.token("{}", header: #"{"alg":"PS256","kid":"key-1"}"#))),
            equals: .invalidSignature)
        expect(
            rejection(try free.verify(try rs256.token("{}", header: #"{"alg":"HS256","kid":"key-1"}"#))),
            equals: .algorithmNotAllowed)
    }

    @Test("Identity rule 12: keys and addresses of keys in the header are not read")
    func keysInTheHeaderAreIgnored() throws {
        let attacker = try ScriptedKey(.es256)
        let keys = try keys([try ScriptedKey(.es256).jwk()])
        for member in ["\"jwk\":\(try attacker.jwk())", #""jku":"https://evil.example""#, #""x5c":["AAAA"]"#] {
            let token = try attacker.token("{}", header: #"{"alg":"ES256","kid":"key-1",\#(member)}"#)
            expect(rejection(try keys.verify(token)), equals: .invalidSignature)
        }
    }

    // MARK: - Keys and tokens that must not affect others

    @Test("Identity rule 15: one forged token does not bind a key without alg to its algorithm")
    func forgedTokenBindsNoAlgorithm() throws {
        let key = try ScriptedKey(.rs256)
        let attacker = ScriptedKey(try ScriptedKey(.rs256, second: true), algorithm: .ps256, id: key.id)
        let keys = try keys([try key.jwk(hasAlgorithm: false)])
        expect(rejection(try keys.verify(try attacker.token("{}"))), equals: .invalidSignature)
        expect(rejection(try keys.verify(try key.token("{}"))), equals: nil)
    }

    @Test("Identity rule 15: a key set with keys of all kinds verifies with the usable ones")
    func strangeKeysSpoilNoSignature() throws {
        let key = try ScriptedKey(.es256, id: "good")
        let offCurve = #"{"kty":"EC","crv":"P-256","x":"AQ","y":"Ag","kid":"off"}"#
        let smallOrder = #"{"kty":"OKP","crv":"Ed25519","x":"\#(String(repeating: "A", count: 43))","kid":"zero"}"#
        let keys = try keys([
            #"{"kty":"oct","k":"AA","kid":"good"}"#, offCurve, smallOrder, #"{"kty":"new"}"#,
            try key.jwk(more: #","use":"sig","ext":true,"x5t#S256":5"#),
        ])
        expect(rejection(try keys.verify(try key.token("{}"))), equals: nil)
        expect(keys.skipped.map(\.position), equals: [0, 3])
        let off = ScriptedKey(key, algorithm: .es256, id: "off")
        expect(rejection(try keys.verify(try off.token("{}"))), equals: .unknownKey)
    }

    @Test("Identity rule 15: an empty audience is a claim like any other and ends no process")
    func emptyAudience() throws {
        let key = try ScriptedKey(.es256)
        let verified = try keys([try key.jwk()]).verify(try key.token(#"{"aud":[],"exp":"x","iat":[]}"#))
        expect(verified.claims["aud"], equals: .array([]))
    }

    @Test("Identity rule 13: a key whose coordinate lost its leading zero verifies")
    func strippedCoordinate() throws {
        let key = ScriptedKey(shortCoordinate: (), id: "short")
        let keys = try keys([try key.jwk(stripsZeros: true)])
        expect(rejection(try keys.verify(try key.token("{}"))), equals: nil)
    }

    @Test("Identity rule 14: a key that left the set verifies nothing")
    func removedKey() throws {
        let old = try ScriptedKey(.es256, id: "old")
        let new = try ScriptedKey(.es256, id: "new")
        let after = try keys([try new.jwk()])
        expect(rejection(try after.verify(try old.token("{}"))), equals: .unknownKey)
        expect(TokenRejection.unknownKey.suggestsOtherKeys)
    }

    @Test("A set without usable keys verifies nothing")
    func noKeys() throws {
        let keys = try keys([])
        expect(keys.count, equals: 0)
        expect(rejection(try keys.verify(try ScriptedKey(.es256).token("{}"))), equals: .unknownKey)
    }
}
