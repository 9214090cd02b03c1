import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

/// Rule 12 of the design of identities, as far as the form of a token.
@Suite("Compact form of signed tokens")
struct UnverifiedTokenTests {
    private func encoded(_ text: String) -> String { Base64URL.encode(Array(text.utf8)) }

    private func parse(
        header: String, payload: String = "{}", signature: String = "AAAA",
        algorithms: Set<SignatureAlgorithm> = Set(SignatureAlgorithm.defaults)
    ) throws(TokenRejection) -> UnverifiedToken {
        let token = encoded(header) + "." + encoded(payload) + "." + signature
        return try UnverifiedToken(parsing: Array(token.utf8), algorithms: algorithms)
    }

    @Test("A token is split into header, payload and signature")
    func parts() throws {
        let token = try parse(header: #"{"alg":"ES256","kid":"a","typ":"JWT"}"#)
        expect(token.algorithm, equals: .es256)
        expect(token.keyID, equals: "a")
        expect(token.type, equals: .jwt)
        expect(token.signature, equals: [0, 0, 0])
        expect(
            Array(token.signedBytes), equals: Array((encoded(#"{"alg":"ES256","kid":"a","typ":"JWT"}"#) + ".e30").utf8))
    }

    @Test(
        "Identity rule 12: none, HMAC and algorithms that are not listed are rejected",
        arguments: ["none", "None", "NONE", "", "HS256", "HS384", "HS512", "RS512", "ES256K", "es256", "ES256 ", "RS1"])
    func noneAndHMACAreRefused(name: String) {
        expect(rejection(try parse(header: #"{"alg":"\#(name)"}"#)), equals: .algorithmNotAllowed)
    }

    @Test(
        "Identity rule 12: a listed algorithm must be permitted by the configuration",
        arguments: SignatureAlgorithm.allCases)
    func listed(algorithm: SignatureAlgorithm) {
        let header = #"{"alg":"\#(algorithm.rawValue)"}"#
        let others = Set(SignatureAlgorithm.allCases).subtracting([algorithm])
        expect(rejection(try parse(header: header, algorithms: [algorithm])), equals: nil)
        expect(rejection(try parse(header: header, algorithms: others)), equals: .algorithmNotAllowed)
    }

    @Test(
        "Identity rule 12: header members that change the meaning of a token are rejected",
        arguments: [
            (#"{"alg":"ES256","crit":["exp"],"exp":1}"#, TokenRejection.criticalHeader),
            (#"{"alg":"ES256","crit":null}"#, .criticalHeader),
            (#"{"alg":"ES256","b64":false,"crit":["b64"]}"#, .criticalHeader),
            (#"{"alg":"ES256","b64":false}"#, .unencodedPayload),
            (#"{"alg":"ES256","b64":true}"#, .unencodedPayload),
            (#"{"alg":"ES256","zip":"DEF"}"#, .compressed),
            (#"{"alg":"ES256","enc":"A256GCM"}"#, .encrypted),
            (#"{"alg":"ES256","alg":"ES256"}"#, .invalidHeader),
            (#"{"alg":"none","\u0061lg":"ES256"}"#, .invalidHeader),
            (#"{"alg":["ES256"]}"#, .invalidHeader), (#"{"alg":1}"#, .invalidHeader),
            (#"{"kid":"a"}"#, .invalidHeader),
            (#"{"alg":"ES256","kid":1}"#, .invalidHeader),
            (#"{"alg":"ES256","kid":null}"#, .invalidHeader),
            (#"{"alg":"ES256","typ":{}}"#, .invalidHeader),
            (#"["ES256"]"#, .invalidHeader),
            ("", .invalidHeader),
            (#"{"alg":"ES256"} x"#, .invalidHeader),
        ])
    func header(text: String, expected: TokenRejection) {
        expect(rejection(try parse(header: text)), equals: expected)
    }

    @Test("Identity rule 12: a name in the header has at most 1,024 bytes", arguments: ["kid", "typ"])
    func longName(member: String) {
        for (length, expected) in [(1_024, nil), (1_025, TokenRejection.invalidHeader)] {
            let header = #"{"alg":"ES256","\#(member)":"\#(String(repeating: "k", count: length))"}"#
            expect(rejection(try parse(header: header)), equals: expected)
        }
    }

    @Test(
        "Identity rule 12: only three parts in canonical base64url are a token",
        arguments: [
            ("", TokenRejection.notCompact), ("a.b", .notCompact), ("a.b.c.d", .notCompact),
            ("a.b.c.d.e.f", .notCompact),
            ("a.b.c.d.e", .encrypted), (#"{"payload":"","signatures":[]}"#, .notCompact),
            ("eyJhbGciOiJFUzI1NiJ9.e30=.AAAA", .invalidEncoding), ("eyJhbGciOiJFUzI1NiJ9.e30.AAA+", .invalidEncoding),
            ("eyJhbGciOiJFUzI1NiJ9.e30.AA\n", .invalidEncoding), (" eyJhbGciOiJFUzI1NiJ9.e30.AAAA", .invalidEncoding),
            ("eyJhbGciOiJFUzI1NiJ9.e31.AAAA", .invalidEncoding), ("eyJhbGciOiJFUzI1NiJ9.e30.A", .invalidEncoding),
        ])
    func form(text: String, expected: TokenRejection) {
        expect(
            rejection(try UnverifiedToken(parsing: Array(text.utf8), algorithms: Set(SignatureAlgorithm.defaults))),
            equals: expected)
    }

    @Test("Identity rule 12: a token has at most 16 KiB")
    func length() {
        let start = "eyJhbGciOiJFUzI1NiJ9.e30."
        for (count, expected) in [(16_384, nil), (16_385, TokenRejection.tooLong)] {
            let token = Array((start + String(repeating: "A", count: count - start.utf8.count)).utf8)
            expect(token.count, equals: count)
            expect(
                rejection(try UnverifiedToken(parsing: token, algorithms: Set(SignatureAlgorithm.defaults))),
                equals: expected
            )
        }
    }

    @Test(
        "The type of a token is compared as a media type",
        arguments: [
            (nil, TokenType.unspecified), ("JWT", .jwt), ("jwt", .jwt), ("application/jwt", .jwt),
            ("logout+jwt", .logout), ("application/Logout+JWT", .logout), ("at+jwt", .accessToken),
            ("dpop+jwt", .proof), ("dbsc+jwt", .device), ("secevent+jwt", .other), ("other", .other), ("", .other),
            ("application/", .other), ("JWT ", .other),
        ])
    func type(name: String?, expected: TokenType) throws {
        let member = name.map { #","typ":"\#($0)""# } ?? ""
        try expect(parse(header: #"{"alg":"ES256"\#(member)}"#).type, equals: expected)
    }

    @Test("Rule 31: a text in place of an algorithm costs linear time, also one that is slow to normalize")
    func linear() {
        let ratio = LinearTime.ratio(ofMarks: { _ = try? parse(header: #"{"alg":"\#($0)"}"#) })
        #expect(ratio < 4, "\(ratio)")
    }

    @Test("Base64url has one spelling for each byte string")
    func base64URL() {
        for count in 0..<40 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 89 &+ count) }
            let text = Base64URL.encode(bytes)
            expect(Base64URL.decode(text.utf8), equals: bytes)
        }
        expect(Base64URL.encode([0xfb, 0xff, 0xfe]), equals: "-__-")
        for text in ["A", "AB", "AAB", "AA==", "+/+/", "AA A", "é"] { expect(Base64URL.decode(text.utf8), equals: nil) }
    }
}
