import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

@Suite("A user's document")
struct UserDocumentTests {
    private let tokens = TokenSet(
        authorization: Secret("Bearer canary/access+token"), refreshToken: Secret("canary-refresh-token"),
        obtainedAt: Upstreams.now)
    private let previous = TokenSet(
        authorization: Secret("Bearer canary-previous-access"), refreshToken: Secret("canary-previous-refresh"),
        obtainedAt: Upstreams.now)

    private func read(_ text: String) -> String? {
        UserDocument.read(Array(text.utf8), excluding: [tokens, previous]).map { String(decoding: $0, as: UTF8.self) }
    }

    @Test("keeps the upstream's numbers, strings and order, and removes insignificant white space")
    func compact() {
        let text =
            "{ \"z\" : 1.50,\r\n\t\"a\": 12345678901234567890, "
            + #""s": "two  words \" , \\" , "n": null } "#
        expect(read(text), equals: #"{"z":1.50,"a":12345678901234567890,"s":"two  words \" , \\","n":null}"#)
    }

    @Test("must be a JSON object", arguments: ["", "[]", "\"jo\"", "7", "null", "{", "{}x", "<user/>"])
    func objectsOnly(text: String) {
        expect(read(text), equals: nil)
    }

    @Test("is limited in size, counted without insignificant white space")
    func bound() {
        let name = String(repeating: "a", count: 16_384 - 8)
        expect(read(#"{"n":"\#(name)"}"#)?.utf8.count, equals: 16_384)
        expect(read(#"{   "n" : "\#(name)"}"#)?.utf8.count, equals: 16_384)
        expect(read(#"{"n":"\#(name)a"}"#), equals: nil)
    }

    @Test("Rule 18: is rejected if it contains one of the session's tokens")
    func noTokens() {
        expect(read(#"{"id":1,"token":"canary/access+token"}"#), equals: nil)
        expect(read(#"{"id":1,"links":["https://x/?t=canary-refresh-token"]}"#), equals: nil)
        expect(read(#"{"id":1,"token":"canary/access"}"#) != nil)
    }

    @Test(
        "Rule 39: is rejected if it contains one of the tokens in any spelling and at any position",
        arguments: [
            #"{"t":"canary\/access+token"}"#, #"{"t":"\u0063anary\/access\u002btoken"}"#,
            #"{"t":"c\u0061nary-refresh-token"}"#, #"{"t":"x canary\u002Drefresh\u002dtoken x"}"#,
            #"{"canary\/access+token":1}"#, #"{"a":{"b":[{"\u0063anary-refresh-token":null}]}}"#,
            #"{"a":[[[["Bearer canary\/access+token"]]]]}"#, #"{"canary-refresh-token":{}}"#,
            #"{"t":"canary-previous-access"}"#, #"{"t":"canary\u002dprevious-refresh"}"#,
        ])
    func hiddenTokens(text: String) {
        expect(read(text), equals: nil)
    }

    @Test("Rule 39: is rejected if a token of digits is a number in it")
    func digits() {
        let tokens = TokenSet(authorization: Secret("Bearer 12345678901234567890"), obtainedAt: Upstreams.now)
        expect(UserDocument.read(Array(#"{"id":12345678901234567890}"#.utf8), excluding: [tokens]), equals: nil)
        expect(UserDocument.read(Array(#"{"id":1234567890123456789}"#.utf8), excluding: [tokens]) != nil)
    }

    @Test("is the address alone if the upstream returns no user")
    func made() throws {
        let credentials = try Upstreams.credentials("o'neil+\u{e9}@example.com")
        let document = UserDocument.fallback(from: credentials)
        expect(JSONValue(document: document), equals: .object(["email": .string("o'neil+\u{e9}@example.com")]))
    }
}
