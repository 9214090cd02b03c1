import FoundationEssentials
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomIdentity

@Suite("A sign-in request")
struct SignInRequestParserTests {
    private let form = "application/x-www-form-urlencoded"

    private func read(
        authorization: String? = nil, type: String? = nil, body: String = ""
    ) throws(SignInRequestParser.SignInInputError) -> Credentials {
        try SignInRequestParser.read(
            AccountRequest(
                endpoint: .signIn, authorization: authorization.map { Secret($0) }, contentType: type,
                body: Secret(body), now: Upstreams.now.sessionTime))
    }

    private func basic(_ pair: String) -> String { "Basic " + Data(pair.utf8).base64EncodedString() }

    @Test("accepts Basic in UTF-8, split at the first colon, in any case of the scheme")
    func basicCredentials() throws {
        let credentials = try read(authorization: basic("jo@example.com:pass:wörd 🔑"))
        expect(credentials, equals: try Upstreams.credentials("jo@example.com", "pass:wörd 🔑"))
        let lower = "basic  " + Data("jo@example.com:x".utf8).base64EncodedString()
        try expect(read(authorization: lower).password, equals: Secret("x"))
    }

    @Test("prefers Basic to a body, and accepts a body next to another scheme")
    func precedence() throws {
        let body = #"{"email":"body@example.com","password":"x"}"#
        let both = try read(authorization: basic("basic@example.com:x"), type: "application/json", body: body)
        expect(both.name, equals: "basic@example.com")
        try expect(
            read(authorization: "Bearer abc", type: "application/json", body: body).name, equals: "body@example.com")
    }

    @Test(
        "accepts JSON with any parameters of its media type",
        arguments: ["application/json", "application/json; charset=utf-8", "Application/JSON ;x=y"])
    func json(type: String) throws {
        let credentials = try read(type: type, body: #"{"email":"jo@example.com","password":"p\"\u00e9","x":[1]}"#)
        expect(credentials, equals: try Upstreams.credentials("jo@example.com", "p\"é"))
    }

    @Test("a form has at most 128 fields, and separators are none")
    func fieldCount() throws {
        let others = (1...126).map { "&&x\($0)=" }.joined()
        let body = "email=jo@example.com&password=x" + others + "&&"
        try expect(read(type: form, body: body).name, equals: "jo@example.com")
        #expect(throws: SignInRequestParser.SignInInputError.malformed) { try read(type: form, body: body + "y") }
    }

    @Test("has the configured member and kind of name, in JSON, in a form and in Basic credentials")
    func otherName() throws {
        let name = AccountsConfiguration.SignInName(member: "user.name", kind: .text)
        func read(_ type: String?, _ body: String, _ authorization: String? = nil) -> Credentials? {
            try? SignInRequestParser.read(
                AccountRequest(
                    endpoint: .signIn, authorization: authorization.map { Secret($0) }, contentType: type,
                    body: Secret(body), now: Upstreams.now.sessionTime), name: name)
        }
        let expected = try Credentials(name: "Jo", kind: .text, password: Secret("x"))
        expect(read("application/json", #"{"user.name":"Jo","password":"x"}"#), equals: expected)
        expect(read(form, "user.name=Jo&password=x"), equals: expected)
        expect(read(nil, "", basic("Jo:x")), equals: expected)
        expect(read("application/json", #"{"user":{"name":"Jo"},"password":"x"}"#), equals: nil)
        expect(read("application/json", #"{"email":"jo@example.com","password":"x"}"#), equals: nil)
        expect(read("application/json", #"{"user.name":"J\u0000o","password":"x"}"#), equals: nil)
        expect(read(form, "user.name=Jo&user.name=Jo&password=x"), equals: nil)
    }

    @Test("accepts a form")
    func forms() throws {
        let credentials = try read(type: form, body: "password=a+b%26%C3%A9%3D=&email=jo%40example.com&remember=1")
        expect(credentials, equals: try Upstreams.credentials("jo@example.com", "a b&é=="))
    }

    @Test(
        "Rule 20: is malformed if its Basic credentials cannot be parsed",
        arguments: ["Basic", "Basic ", "Basic !!!", "Basic am8", "Basic am9AZXhhbXBsZS5jb20=", "Basic am86/w=="])
    func malformedBasic(authorization: String) {
        #expect(throws: SignInRequestParser.SignInInputError.malformed) { try read(authorization: authorization) }
        // A valid body next to them does not help: the intended credentials would be ambiguous.
        #expect(throws: SignInRequestParser.SignInInputError.malformed) {
            try read(
                authorization: authorization, type: "application/json",
                body: #"{"email":"jo@example.com","password":"x"}"#)
        }
    }

    @Test(
        "Rule 20: is malformed if its body cannot be parsed",
        arguments: [
            ("application/json", "{"), ("application/json", "email=jo@example.com&password=x"),
            ("application/json", #"{"email":"jo@example.com","password":"x"}{}"#),
            ("application/json", #"{"email":"jo@example.com","email":"al@example.com","password":"x"}"#),
            ("application/json", #"{"email":"jo@example.com","em\u0061il":"al@example.com","password":"x"}"#),
            ("application/x-www-form-urlencoded", "email=jo@example.com&em%61il=al@example.com&password=x"),
            ("application/x-www-form-urlencoded", "email=jo%4&password=x"),
            ("application/x-www-form-urlencoded", "email=jo%zz&password=x"),
            ("application/x-www-form-urlencoded", "email=jo@example.com&password=%ff"),
            ("application/x-www-form-urlencoded", "email=jo@example.com&password=x&email=al@example.com"),
        ])
    func malformedBody(type: String, body: String) {
        #expect(throws: SignInRequestParser.SignInInputError.malformed) { try read(type: type, body: body) }
    }

    @Test(
        "is unsupported with a body of another type",
        arguments: ["text/plain", "multipart/form-data; boundary=x", "", "application/jsonx"])
    func otherTypes(type: String) {
        #expect(throws: SignInRequestParser.SignInInputError.unsupportedMediaType) { try read(type: type, body: "x") }
        #expect(throws: SignInRequestParser.SignInInputError.unsupportedMediaType) { try read(body: "x") }
    }

    @Test("is invalid without credentials")
    func nothing() {
        #expect(throws: SignInRequestParser.SignInInputError.invalid) { try read() }
        #expect(throws: SignInRequestParser.SignInInputError.invalid) { try read(type: "text/plain") }
        #expect(throws: SignInRequestParser.SignInInputError.invalid) {
            try read(authorization: "Bearer abc", type: "application/json")
        }
    }

    @Test(
        "Rule 10: is invalid if the address is malformed or the password is empty",
        arguments: [
            #"{"email":"jo","password":"x"}"#, #"{"email":"jo@a.com@b.com","password":"x"}"#,
            #"{"email":"jo\u0000@example.com","password":"x"}"#, #"{"email":"jo@example.com\r\n","password":"x"}"#,
            #"{"email":"jo@example.com","password":""}"#, #"{"email":"jo@example.com"}"#, #"{"password":"x"}"#, "{}",
            "[]", #"{"email":["jo@example.com"],"password":"x"}"#, #"{"email":"jo@example.com","password":1}"#,
        ])
    func invalid(body: String) {
        #expect(throws: SignInRequestParser.SignInInputError.invalid) { try read(type: "application/json", body: body) }
    }

    @Test("Rule 10: is invalid if an escaped address of a form is malformed", arguments: ["jo%00", "jo%0a", "a%40"])
    func invalidForm(name: String) {
        let body = "email=\(name)%40example.com&password=x"
        #expect(throws: SignInRequestParser.SignInInputError.invalid) { try read(type: form, body: body) }
    }

    @Test(
        "is invalid with Basic credentials without a name or a password", arguments: [":x", "jo@example.com:", "jo:x"])
    func invalidBasic(pair: String) {
        #expect(throws: SignInRequestParser.SignInInputError.invalid) { try read(authorization: basic(pair)) }
    }
}
