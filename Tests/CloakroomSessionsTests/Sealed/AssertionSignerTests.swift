import CloakroomCore
import Crypto
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("The signatures of assertions")
struct AssertionSignerTests {
    private let secrets = ["a", "b", "c"].map { Secret(String(repeating: $0, count: 32)) }

    /// The public keys of a signer, by key id.
    private func keys(_ signer: AssertionSigner) throws -> [String: P256.Signing.PublicKey] {
        guard case .array(let items)? = JSONValue(document: signer.keySet)?[path: "keys"] else { return [:] }
        var keys: [String: P256.Signing.PublicKey] = [:]
        for item in items {
            func member(_ name: String) throws -> String { try require(item[path: name]?.string) }
            let names = try ["kty", "crv", "use", "alg"].map(member)
            expect(names, equals: ["EC", "P-256", "sig", "ES256"])
            let point = try ["x", "y"].map { try require(Base64URL.decode(try member($0).utf8)) }
            expect(point.allSatisfy { $0.count == 32 })
            // RFC 7638 §3.2: the required members in the order of their names, without spaces.
            let text = #"{"crv":"P-256","kty":"EC","x":"\#(try member("x"))","y":"\#(try member("y"))"}"#
            try expect(member("kid"), equals: Base64URL.encode(Array(SHA256.hash(data: Array(text.utf8)))))
            expect(item[path: "d"], equals: nil)
            keys[try member("kid")] = try P256.Signing.PublicKey(rawRepresentation: point[0] + point[1])
        }
        return keys
    }

    /// Whether the keys of a signer verify a token.
    private func verifies(_ signer: AssertionSigner, _ token: String) throws -> Bool {
        let parts = token.split(separator: ".")
        try require(parts.count == 3)
        let headerText = try require(Base64URL.decode(parts[0].utf8))
        let header = try require(JSONValue(document: headerText))
        expect(header[path: "alg"] == .string("ES256") && header[path: "typ"] == .string("identity+jwt"))
        let signature = try P256.Signing.ECDSASignature(
            rawRepresentation: try require(Base64URL.decode(parts[2].utf8)))
        guard let key = try keys(signer)[try require(header[path: "kid"]?.string)] else { return false }
        return key.isValidSignature(signature, for: Array((parts[0] + "." + parts[1]).utf8))
    }

    @Test("Rule 131: replicas have the same keys, all are published, and that of a removed secret verifies nothing")
    func rotation() throws {
        expect(AssertionSigner([]) == nil)
        let first = try require(AssertionSigner([secrets[0]]))
        let replica = try require(AssertionSigner([secrets[0]]))
        expect(first.keySet, equals: replica.keySet)
        let token = try require(first.sign(#"{"sub":"jo"}"#))
        expect(token.split(separator: ".")[1] == Base64URL.encode(Array(#"{"sub":"jo"}"#.utf8)))
        try expect(verifies(replica, token))
        let rotated = try require(AssertionSigner([secrets[1], secrets[0]]))
        try expect(keys(rotated).count, equals: 2)
        try expect(verifies(rotated, token))
        let next = try require(rotated.sign("{}"))
        try expect(verifies(rotated, next))
        try expect(!verifies(first, next))
        let later = try require(AssertionSigner([secrets[2], secrets[1]]))
        try expect(verifies(later, next))
        try expect(!verifies(later, token))
    }

    @Test("Rule 131: keys are not printed, and a session has another name for each audience, whatever the secret is")
    func names() throws {
        let signer = try require(AssertionSigner([secrets[0]]))
        let rotated = try require(AssertionSigner([secrets[1]]))
        var dumped = ""
        dump(signer, to: &dumped)
        expect(!"\(signer) \(String(reflecting: signer)) \(dumped)".contains("kid"))
        let (one, other) = (SessionKey(1, 2, 3, 4), SessionKey(1, 2, 3, 5))
        let name = signer.name(of: one, for: "orders")
        expect(name.utf8.count == 22 && name == rotated.name(of: one, for: "orders"))
        expect(
            Set([name, signer.name(of: one, for: "billing"), signer.name(of: other, for: "orders")]).count, equals: 3)
    }
}
