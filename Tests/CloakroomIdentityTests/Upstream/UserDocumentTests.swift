import CloakroomCore
import Testing

@testable import CloakroomIdentity

@Suite("A user's document")
struct UserDocumentTests {
    private let tokens = SessionTokens(
        authorization: Secret("Bearer canary-access-token"), refreshToken: Secret("canary-refresh-token"),
        obtainedAt: Upstreams.now)

    private func read(_ text: String) -> String? {
        UserDocument.read(Array(text.utf8), tokens: tokens).map { String(decoding: $0, as: UTF8.self) }
    }

    @Test("keeps the upstream's own numbers, strings and order, and loses the space between")
    func compact() {
        let text =
            "{ \"z\" : 1.50,\r\n\t\"a\": 12345678901234567890, "
            + #""s": "two  words \" , \\" , "n": null } "#
        #expect(read(text) == #"{"z":1.50,"a":12345678901234567890,"s":"two  words \" , \\","n":null}"#)
    }

    @Test("is a JSON object and nothing else", arguments: ["", "[]", "\"jo\"", "7", "null", "{", "{}x", "<user/>"])
    func objectsOnly(text: String) {
        #expect(read(text) == nil)
    }

    @Test("has a bound on its size, counted without the space between")
    func bound() {
        let name = String(repeating: "a", count: 16_384 - 8)
        #expect(read(#"{"n":"\#(name)"}"#)?.utf8.count == 16_384)
        #expect(read(#"{   "n" : "\#(name)"}"#)?.utf8.count == 16_384)
        #expect(read(#"{"n":"\#(name)a"}"#) == nil)
    }

    @Test("Rule 18: is refused when one of the session's tokens stands in it")
    func noTokens() {
        #expect(read(#"{"id":1,"token":"canary-access-token"}"#) == nil)
        #expect(read(#"{"id":1,"links":["https://x/?t=canary-refresh-token"]}"#) == nil)
        #expect(read(#"{"id":1,"token":"canary-access"}"#) != nil)
    }

    @Test("is the address alone where the upstream tells nothing")
    func made() throws {
        let credentials = try Upstreams.credentials("o'neil+\u{e9}@example.com")
        let made = UserDocument.made(from: credentials)
        let document = try #require(made)
        #expect(JSONValue(document: document) == .object(["email": .string("o'neil+\u{e9}@example.com")]))
    }
}
