import CloakroomCore
import TestSupport
import Testing

@testable import cloakroom

@Suite("The redaction of doctor")
struct DoctorRedactionTests {
    private let redaction = DoctorRedaction([Secret("pass-w0rd"), Secret("abc"), Secret("Bearer opaque-access")])

    @Test(
        "Ordinary names are printed",
        arguments: [
            "accessToken", "refresh_token", "expires-in", "$id", "abcd", "oauth2",
            "backchannel_authentication_request_signing_alg_values_supported",
        ])
    func ordinary(name: String) {
        expect(redaction.name(name), equals: name)
    }

    @Test(
        "Names with a secret, an encoding of it, other characters, many digits or many bytes are not printed",
        arguments: [
            "pass-w0rd", "xPASS-W0RDx", "cGFzcy13MHJk", "abc", "opaque-access", "a b", "a.b", "\u{1b}[31m", "\u{e9}",
            "",
            "key12345", String(repeating: "k", count: 41), String(repeating: "Words_", count: 7) + "a",
            "opaque_" + String(repeating: "w", count: 66), "the_name_has_pass-w0rd_in_it_and_is_a_long_one",
        ])
    func redacted(name: String) {
        expect(redaction.name(name), equals: "<redacted>")
    }

    @Test("Other encodings of a secret, and parts of one, are not printed")
    func encodings() {
        let redaction = DoctorRedaction([Secret("corr?ct~horse>>battery"), Secret("Bearer eyJhbGciOiJI.signature")])
        for name in [
            "Y29ycj9jdH5ob3JzZT4-YmF0dGVyeQ", "battery", "BATTERY", "eyJhbGciOiJI", "signature",
        ] {
            expect(redaction.name(name), equals: "<redacted>", "\(name)")
        }
        expect(redaction.mediaType("text/Y29ycj9jdH5ob3JzZT4-YmF0dGVyeQ"), equals: "<redacted>")
        expect(redaction.mediaType("text/636f72723f6374"), equals: "text/636f72723f6374")
        expect(redaction.mediaType("text/636f72723f63747e686f7273653e3e62617474657279"), equals: "<redacted>")
        expect(redaction.code("battery"), equals: "<redacted>")
        // Shorter parts occur in ordinary names.
        expect(redaction.name("horse"), equals: "horse")
    }

    @Test("A text of a response is a secret from then on")
    func texts() throws {
        var redaction = redaction
        let document = try require(JSONValue(document: Array(#"{"a":[{"b":"issued-token"}]}"#.utf8)))
        expect(redaction.name("issued-token"), equals: "issued-token")
        redaction.addTexts(of: document)
        expect(redaction.name("issued-token"), equals: "<redacted>")
        expect(redaction.names(in: document), equals: ["a"])
    }

    @Test("If a response has more texts than are compared, nothing of it is printed")
    func tooManyTexts() throws {
        func document(_ count: Int) throws -> JSONValue {
            let texts = (0..<count).map { "\"text-number-\($0)\"" }.joined(separator: ",")
            return try require(JSONValue(document: Array("{\"accessToken\":[\(texts)]}".utf8)))
        }
        var redaction = DoctorRedaction([])
        let complete = try document(DoctorRedaction.maxSecrets)
        redaction.addTexts(of: complete)
        redaction.addTexts(of: complete)
        expect(!redaction.isIncomplete)
        expect(redaction.names(in: complete), equals: ["accessToken"])
        let more = try document(DoctorRedaction.maxSecrets + 1)
        redaction.addTexts(of: more)
        expect(redaction.isIncomplete)
        expect(redaction.names(in: more), equals: [])
        expect(redaction.name("accessToken"), equals: "<redacted>")
        expect(redaction.code("invalid_grant"), equals: "<redacted>")
        expect(redaction.mediaType("application/json"), equals: "<redacted>")
    }

    @Test("Names are ordered paths, at most three levels and 24 of them")
    func bounds() throws {
        let deep = try require(JSONValue(document: Array(#"{"b":1,"a":{"c":{"d":{"e":1}}}}"#.utf8)))
        expect(redaction.names(in: deep), equals: ["a", "a.c", "a.c.d", "b"])
        let letters = "abcdefghijklmnopqrstuvwxyz".map { "\"\($0)\":1" }
        let wide = try require(JSONValue(document: Array("{\(letters.joined(separator: ","))}".utf8)))
        expect(redaction.names(in: wide).count, equals: 25)
        expect(redaction.names(in: wide).last, equals: "and 2 more")
    }

    @Test("Media types without parameters, and URLs without queries")
    func others() {
        expect(redaction.mediaType("application/json; charset=utf-8"), equals: "application/json")
        expect(redaction.mediaType("text/pass-w0rd"), equals: "<redacted>")
        expect(redaction.mediaType("text"), equals: "<redacted>")
        expect(redaction.url("https://api.example.com/auth?code=1"), equals: "https://api.example.com/auth")
        expect(redaction.url("https://api.example.com/\u{7f}"), equals: "<redacted>")
        expect(redaction.code("invalid_grant"), equals: "invalid_grant")
        expect(redaction.code("Wrong: pass-w0rd"), equals: "<redacted>")
    }
}

@Suite("The keys that doctor proposes")
struct UsualMemberTests {
    private func candidates(_ member: UsualMember, _ text: String) throws -> [String] {
        member.candidates(in: try require(JSONValue(document: Array(text.utf8))), DoctorRedaction([]))
    }

    @Test("Values with usual names, at the top or one level below")
    func candidates() throws {
        let response = #"{"data":{"token":"x","id":1},"access_token":"y","jwt":5,"refresh":"z","ttl":300}"#
        try expect(candidates(.accessToken, response), equals: ["access_token", "data.token"])
        try expect(candidates(.refreshToken, response), equals: ["refresh"])
        try expect(candidates(.lifetime, response), equals: ["ttl"])
        try expect(candidates(.userID, #"{"me":{"uid":"u1"},"name":"Jo"}"#), equals: ["me.uid"])
        try expect(candidates(.lifetime, #"{"expires":"900"}"#), equals: ["expires"])
    }

    @Test("A point in time and a value of another type are no candidates")
    func otherValues() throws {
        try expect(candidates(.lifetime, #"{"expires":1900000000,"ttl":"soon","lifetime":0}"#), equals: [])
        try expect(candidates(.userID, #"{"id":null,"uid":[],"sub":true}"#), equals: [])
    }

    @Test("A member that an error response names is one, unless the request has it; a secret is none")
    func words() {
        let text = #"{"errors":{"user":["is required"],"Pass":["is required"]}}"#
        let redaction = DoctorRedaction([])
        expect(UsualMember.name.word(in: text, otherThan: "email", redaction), equals: "user")
        expect(UsualMember.password.word(in: text, otherThan: "password", redaction), equals: "Pass")
        expect(UsualMember.name.word(in: text, otherThan: nil, redaction), equals: "user")
        expect(UsualMember.name.word(in: "invalid email or user", otherThan: "email", redaction), equals: nil)
        expect(UsualMember.password.word(in: text, otherThan: nil, DoctorRedaction([Secret("Pass")])), equals: nil)
    }
}
