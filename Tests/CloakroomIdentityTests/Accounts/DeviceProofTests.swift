import Crypto
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomIdentity

@Suite("A challenge that the key of a device has signed")
struct DeviceProofTests {
    private static func rejection(_ token: [UInt8]) -> DeviceRejection? {
        do throws(DeviceRejection) {
            _ = try DeviceProof(parsing: token)
            return nil
        } catch {
            return error
        }
    }

    @Test("Rule 116: proofTable: the type, ES256, the key and the length of the signature are as required")
    func proofTable() throws {
        let key = try ScriptedKey(.es256, id: nil)
        let jwk = try key.jwk(more: "", hasAlgorithm: false)
        func token(
            _ members: String, _ payload: String = #"{"jti":"c"}"#, by other: ScriptedKey? = nil
        ) throws -> [UInt8] {
            try (other ?? key).token(payload, header: "{\(members)}")
        }
        let es256 = #""typ":"dbsc+jwt","alg":"ES256""#
        let valid = try DeviceProof(parsing: try token(#"\#(es256),"jwk":\#(jwk)"#))
        let own = try require(valid.key)
        expect(valid.challenge == "c" && valid.isSigned(by: own))
        try expect(DeviceProof(parsing: try token(es256)).key, equals: nil)
        try expect(
            DeviceProof(parsing: try token(#""typ":"application/DBSC+jwt","alg":"ES256""#)).challenge, equals: "c")
        let (p384, ed25519) = (try ScriptedKey(.es384), try ScriptedKey(.edDSA))
        let rows: [(token: [UInt8], rejection: DeviceRejection)] = [
            ([], .malformed), (Array("a.b".utf8), .malformed), (Array("e30.e30.".utf8), .malformed),
            (try token(#""typ":"dbsc+jwt","alg":"none""#), .malformed),
            (try token(#""typ":"dbsc+jwt","alg":"RS256""#), .malformed),
            (try token(#""typ":"dbsc+jwt","alg":"HS256""#), .malformed),
            (try token(#""typ":"dbsc+jwt","alg":"ES384""#, by: p384), .malformed),
            (try token(#""typ":"dbsc+jwt","alg":"EdDSA""#, by: ed25519), .malformed),
            (try token(#""alg":"ES256""#), .malformed), (try token(#""typ":"JWT","alg":"ES256""#), .malformed),
            (try token(#""typ":"logout+jwt","alg":"ES256""#), .malformed),
            (try token(#"\#(es256),"crit":["b64"]"#), .malformed),
            (try token(es256, "{}"), .malformed), (try token(es256, "[]"), .malformed),
            (try token(es256, #"{"jti":1}"#), .malformed), (try token(es256, #"{"jti":"a","jti":"b"}"#), .malformed),
            (try token(es256, #"{"jti":"\#(String(repeating: "a", count: 4_096))"}"#), .malformed),
            // A signature with 96 bytes, as in DER, where ES256 has 64.
            (try token(es256, by: p384), .malformed),
            (try token(#"\#(es256),"jwk":"a""#), .invalidKey), (try token(#"\#(es256),"jwk":{}"#), .invalidKey),
            (try token(#"\#(es256),"jwk":\#(try key.jwk(more: #","d":"AAAA""#))"#), .invalidKey),
            (try token(#"\#(es256),"jwk":\#(try p384.jwk())"#), .invalidKey),
            (try token(#"\#(es256),"jwk":\#(try ed25519.jwk())"#), .invalidKey),
            (try token(#"\#(es256),"jwk":{"kty":"EC","crv":"P-256","x":"AQ","y":"AQ"}"#), .invalidKey),
            (try token(#"\#(es256),"jwk":{"kty":"oct","k":"AQ"}"#), .invalidKey),
        ]
        for (index, row) in rows.enumerated() {
            expect(Self.rejection(row.token), equals: row.rejection, "row \(index)")
        }
    }

    @Test("Rule 116: a signature of another key, of another challenge, and none at all are not valid")
    func signatures() throws {
        let (key, other) = (try ScriptedKey(.es256, id: nil), try ScriptedKey(.es256, id: nil))
        let header = #"{"typ":"dbsc+jwt","alg":"ES256","jwk":\#(try key.jwk(more: "", hasAlgorithm: false))}"#
        let token = try key.token(#"{"jti":"c"}"#, header: header)
        let proof = try DeviceProof(parsing: token)
        let stated = try require(proof.key)
        expect(proof.isSigned(by: stated))
        try expect(!DeviceProof(parsing: other.token(#"{"jti":"c"}"#, header: header)).isSigned(by: stated))
        let parts = token.split(separator: UInt8(ascii: "."))
        let changed = Array(parts[0]) + Array(".".utf8) + Array(Base64URL.encode(Array(#"{"jti":"d"}"#.utf8)).utf8)
        try expect(!DeviceProof(parsing: changed + Array(".".utf8) + Array(parts[2])).isSigned(by: stated))
        let zeros = Base64URL.encode(Array(repeating: UInt8(0), count: 64))
        let unsigned = Array(parts[0]) + Array(".".utf8) + Array(parts[1]) + Array(".\(zeros)".utf8)
        try expect(!DeviceProof(parsing: unsigned).isSigned(by: stated))
        for count in [0, 1, 63, 65] {
            expect(!proof.isSigned(by: Array(repeating: 4, count: count)))
        }
    }
}
