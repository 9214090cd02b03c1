import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

/// Rule 13 of the design of identities.
@Suite("Key sets of providers")
struct JSONWebKeySetTests {
    /// 2,048 bits, odd.
    private static let modulus = Base64URL.encode([0xc1] + Array(repeating: 0x55, count: 255))
    private static let rsa = #""kty":"RSA","n":"\#(modulus)","e":"AQAB""#
    private static let coordinate = Base64URL.encode(Array(repeating: 7, count: 32))
    private static let p256 = #""kty":"EC","crv":"P-256","x":"\#(coordinate)","y":"\#(coordinate)""#
    private static let ed25519 = #""kty":"OKP","crv":"Ed25519","x":"\#(coordinate)""#

    private func only(_ key: String) throws -> (key: JSONWebKey?, reason: JSONWebKey.Unusable?) {
        let set = try JSONWebKeySet(document: keySetDocument([key]))
        expect(set.keys.count + set.skipped.count, equals: 1)
        return (set.keys.first, set.skipped.first?.reason)
    }

    @Test(
        "Keys of all supported types are read",
        arguments: [
            ("{\(rsa)}", SignatureAlgorithm.KeyType.rsa),
            (#"{\#(rsa),"alg":"PS256","use":"sig","kid":"a","x5t":"?","x5c":["?"]}"#, .rsa),
            (#"{\#(rsa),"key_ops":["verify"],"alg":null,"use":null,"kid":null}"#, .rsa),
            ("{\(p256)}", .curve(.p256)), ("{\(ed25519)}", .ed25519),
            (#"{"kty":"EC","crv":"P-384","x":"AQ","y":"Ag"}"#, .curve(.p384)),
            (#"{"kty":"EC","crv":"P-521","x":"AQ","y":"Ag"}"#, .curve(.p521)),
        ])
    func types(key: String, type: SignatureAlgorithm.KeyType) throws {
        try expect(only(key).key?.material.type, equals: type)
    }

    @Test(
        "Identity rule 13: an unusable key is skipped for a reason",
        arguments: [
            ("1", JSONWebKey.Unusable.notAnObject), ("null", .notAnObject), (#""RSA""#, .notAnObject),
            ("{}", .otherType), (#"{"kty":"rsa"}"#, .otherType), (#"{"kty":"AKP","alg":"ML-DSA-44"}"#, .otherType),
            (#"{"kty":["RSA"]}"#, .otherType),
            (#"{"kty":"oct","k":"AAAA"}"#, .sharedKey), (#"{"kty":"oct"}"#, .sharedKey),
            (#"{\#(rsa),"k":"AAAA"}"#, .sharedKey),
            (#"{\#(rsa),"d":"AAAA"}"#, .privateKey), (#"{\#(p256),"d":"AAAA"}"#, .privateKey),
            (#"{\#(ed25519),"d":"AAAA"}"#, .privateKey), (#"{\#(rsa),"p":"AAAA"}"#, .privateKey),
            (#"{\#(rsa),"use":"enc"}"#, .otherUse), (#"{\#(rsa),"use":"SIG"}"#, .otherUse),
            (#"{\#(rsa),"use":["sig"]}"#, .otherUse), (#"{\#(rsa),"key_ops":["encrypt"]}"#, .otherUse),
            (#"{\#(rsa),"key_ops":"verify"}"#, .otherUse),
            (#"{\#(rsa),"alg":"RSA-OAEP-256"}"#, .otherAlgorithm), (#"{\#(rsa),"alg":"ES256"}"#, .otherAlgorithm),
            (#"{\#(rsa),"alg":"HS256"}"#, .otherAlgorithm), (#"{\#(rsa),"alg":"none"}"#, .otherAlgorithm),
            (#"{\#(rsa),"alg":1}"#, .otherAlgorithm), (#"{\#(p256),"alg":"ES384"}"#, .otherAlgorithm),
            (#"{\#(p256),"alg":"RS256"}"#, .otherAlgorithm), (#"{\#(ed25519),"alg":"ES256"}"#, .otherAlgorithm),
            (#"{\#(rsa),"kid":1}"#, .invalidName),
            (#"{\#(rsa),"kid":"\#(String(repeating: "k", count: 1_025))"}"#, .invalidName),
            (#"{"kty":"EC","crv":"secp256k1","x":"AQ","y":"Ag"}"#, .otherCurve),
            (#"{"kty":"EC","x":"AQ","y":"Ag"}"#, .otherCurve),
            (#"{"kty":"OKP","crv":"X25519","x":"\#(coordinate)"}"#, .otherCurve),
            (#"{"kty":"OKP","crv":"Ed448","x":"\#(coordinate)"}"#, .otherCurve),
            (#"{"kty":"OKP","crv":"Ed25519","x":"AAAA"}"#, .invalidNumbers),
            (#"{"kty":"OKP","crv":"Ed25519"}"#, .invalidNumbers),
            (#"{"kty":"EC","crv":"P-256","x":"AQ"}"#, .invalidNumbers),
            (#"{"kty":"EC","crv":"P-256","x":"AQ","y":""}"#, .invalidNumbers),
            (#"{"kty":"EC","crv":"P-256","x":"AQ","y":"AQ=="}"#, .invalidNumbers),
            (#"{"kty":"EC","crv":"P-256","x":"AQ","y":5}"#, .invalidNumbers),
            (#"{"kty":"EC","crv":"P-256","x":"\#(coordinate)","y":"\#(modulus)"}"#, .invalidNumbers),
            (#"{"kty":"RSA","e":"AQAB"}"#, .invalidNumbers), (#"{"kty":"RSA","n":"\#(modulus)"}"#, .invalidNumbers),
            (#"{"kty":"RSA","n":"\#(modulus)","e":"AQ"}"#, .invalidNumbers),
            (#"{"kty":"RSA","n":"\#(modulus)","e":"AA"}"#, .invalidNumbers),
            (#"{"kty":"RSA","n":"\#(modulus)","e":"Ag"}"#, .invalidNumbers),
            (#"{"kty":"RSA","n":"\#(modulus)","e":"\#(coordinate)"}"#, .invalidNumbers),
        ])
    func unusable(key: String, reason: JSONWebKey.Unusable) throws {
        try expect(only(key).reason, equals: reason)
    }

    @Test("Identity rule 13: an RSA modulus has 2,048 to 8,192 bits, whatever its leading zeros")
    func modulusBits() throws {
        func reason(_ modulus: [UInt8]) throws -> JSONWebKey.Unusable? {
            try only(#"{"kty":"RSA","n":"\#(Base64URL.encode(modulus))","e":"AQAB"}"#).reason
        }
        let ones = [UInt8](repeating: 0xff, count: 1_024)
        try expect(reason(Array(ones.prefix(256))), equals: nil)
        try expect(reason([0, 0] + ones.prefix(256)), equals: nil)
        try expect(reason([0x7f] + ones.prefix(255)), equals: .weakKey)
        try expect(reason(Array(repeating: 0, count: 256) + ones.prefix(128)), equals: .weakKey)
        try expect(reason([1]), equals: .weakKey)
        try expect(reason(ones), equals: nil)
        try expect(reason([1] + ones), equals: .invalidNumbers)
        try expect(reason(ones.prefix(255) + [0xfe]), equals: .invalidNumbers)
    }

    @Test("Identity rule 13: coordinates without leading zeros are padded to the length of the curve")
    func shortCoordinatesArePadded() throws {
        let short = #"{"kty":"EC","crv":"P-256","x":"AQ","y":"Ag"}"#
        let long = Base64URL.encode([0, 0] + Array(repeating: 0, count: 31) + [1])
        let zeros = [UInt8](repeating: 0, count: 31)
        let expected = JSONWebKey.Material.curve(.p256, x: zeros + [1], y: zeros + [2])
        try expect(only(short).key?.material, equals: expected)
        try expect(only(#"{"kty":"EC","crv":"P-256","x":"\#(long)","y":"Ag"}"#).key?.material, equals: expected)
    }

    @Test("Identity rule 13: one strange key spoils nothing, wherever it is")
    func oneStrangeKeySpoilsNothing() throws {
        let strange = ["{}", "null", #"{"kty":"oct","k":"AA"}"#, #"{"kty":"XXX","x":{"y":[1]}}"#, "[]"]
        let good = [#"{\#(Self.rsa),"kid":"a"}"#, #"{\#(Self.p256),"kid":"b"}"#]
        for key in strange {
            for keys in [[key] + good, [good[0], key, good[1]], good + [key]] {
                let set = try JSONWebKeySet(document: keySetDocument(keys))
                expect(set.keys.map(\.id), equals: ["a", "b"])
                expect(set.skipped.count, equals: 1)
            }
        }
    }

    @Test(
        "A document is rejected as a whole if it is no key set",
        arguments: [
            ("", JSONWebKeySet.Invalid.notJSON), ("<html>", .notJSON), (#"{"keys":[]}x"#, .notJSON),
            (#"{"keys":[],"keys":[]}"#, .notJSON), (#"{"keys":[{"kty":"RSA","kty":"EC"}]}"#, .notJSON),
            ("[]", .noKeys), ("{}", .noKeys), (#"{"keys":{}}"#, .noKeys), (#"{"keys":null}"#, .noKeys),
        ])
    func invalid(text: String, expected: JSONWebKeySet.Invalid) {
        #expect(throws: expected) { try JSONWebKeySet(document: Array(text.utf8)) }
    }

    @Test("Rule 31: the key of a client costs linear time, also with texts that are slow to normalize")
    func linear() throws {
        for key in ["{}", "{\(Self.rsa)}", "{\(Self.p256)}", "{\(Self.ed25519)}"] {
            guard case .object(let members)? = JSONValue(document: Array(key.utf8)) else { continue }
            for name in ["kty", "use", "alg", "crv"] as [JSONMemberName] {
                let ratio = LinearTime.ratio(ofMarks: { text in
                    _ = try? JSONWebKey(.object(members.merging([name: .string(text)]) { $1 }))
                })
                #expect(ratio < 4, "\(name.text): \(ratio)")
            }
            let ratio = LinearTime.ratio(ofMarks: { text in
                _ = try? JSONWebKey(.object(members.merging(["key_ops": .array([.string(text)])]) { $1 }))
            })
            #expect(ratio < 4, "key_ops: \(ratio)")
        }
    }

    @Test("Identity rule 13: a document has at most 64 keys and 64 KiB")
    func bounds() throws {
        try expect(JSONWebKeySet(document: keySetDocument(Array(repeating: "{}", count: 64))).skipped.count, equals: 64)
        #expect(throws: JSONWebKeySet.Invalid.tooManyKeys) {
            try JSONWebKeySet(document: keySetDocument(Array(repeating: "{}", count: 65)))
        }
        let document = keySetDocument([])
        let full = document + Array(repeating: UInt8(ascii: " "), count: 65_536 - document.count)
        try expect(empty: JSONWebKeySet(document: full).keys)
        #expect(throws: JSONWebKeySet.Invalid.tooLong) { try JSONWebKeySet(document: full + [0x20]) }
    }
}
