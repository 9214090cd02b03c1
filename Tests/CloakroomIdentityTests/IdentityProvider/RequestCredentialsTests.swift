import FoundationEssentials
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomIdentity

@Suite("The credentials in a request to an upstream")
struct RequestCredentialsTests {
    private typealias Configuration = IdentityEndpointConfiguration

    private func jo(_ name: String = "jo@example.com", _ password: String = "a b&c=d%+é\"") throws -> Credentials {
        try Credentials(name: name, kind: .text, password: Secret(password))
    }

    private func text(_ body: (type: RequestCredentials.MediaType, content: Secret)?) -> String? {
        body.map { String(decoding: $0.content.bytes, as: UTF8.self) }
    }

    private func text(_ secret: Secret?) -> String? { secret.map { String(decoding: $0.bytes, as: UTF8.self) } }

    @Test("are the configured members of a form, all escaped, with the static ones after them")
    func form() throws {
        let configuration = Configuration(
            path: "/login", credentials: .form, members: .init(name: "user[name]", password: "pass"),
            fixedMembers: [.init(name: "realm", value: "a b"), .init(name: "empty", value: "")])
        let made = try require(RequestCredentials.signIn(jo(), configuration: configuration))
        expect(made.authorization, equals: nil)
        expect(made.body?.type, equals: .form)
        expect(
            text(made.body),
            equals: "user%5Bname%5D=jo%40example.com&pass=a+b%26c%3Dd%25%2B%C3%A9%22&realm=a+b&empty=")
        let read = try require(FormURLEncodedBody.read(made.body?.content.bytes ?? []))
        expect(read["pass"], equals: "a b&c=d%+é\"")
    }

    @Test("are a token in the field and with the scheme that the upstream expects")
    func bearerField() throws {
        var configuration = Configuration(path: "/refresh")
        let plain = try require(RequestCredentials.refresh(Secret("r"), configuration: configuration))
        expect(plain.field == "Authorization" && text(plain.authorization) == "Bearer r")
        configuration.bearer.header = "X-Auth-Token"
        configuration.bearer.scheme = ""
        for make in [RequestCredentials.refresh, RequestCredentials.revocation] {
            let made = try require(make(Secret("r"), configuration))
            expect(made.field == "X-Auth-Token" && text(made.authorization) == "r")
        }
        configuration.bearer.scheme = "Token"
        let tokens = TokenSet(authorization: Secret("Bearer a"), obtainedAt: WallTime(seconds: 1))
        expect(text(RequestCredentials.accessToken(tokens, in: configuration.bearer).authorization), equals: "Token a")
        expect(text(RequestCredentials.accessToken(tokens).authorization), equals: "Bearer a")
    }

    @Test("are the configured members of a JSON object")
    func json() throws {
        let configuration = Configuration(
            path: "/login", credentials: .json, members: .init(name: "user\"name", password: "pass"),
            fixedMembers: [.init(name: "realm", value: "main")])
        let made = try require(RequestCredentials.signIn(jo(), configuration: configuration))
        expect(made.body?.type, equals: .json)
        expect(text(made.body), equals: #"{"user\"name":"jo@example.com","pass":"a b&c=d%+é\"","realm":"main"}"#)
        let document = try require(JSONValue(document: made.body?.content.bytes ?? []))
        expect(
            document,
            equals: .object([
                "user\"name": .string("jo@example.com"), "pass": .string("a b&c=d%+é\""), "realm": .string("main"),
            ]))
    }

    @Test("are named email, password and refreshToken without further configuration")
    func usualNames() throws {
        let configuration = Configuration(path: "/auth", credentials: .json)
        let signIn = RequestCredentials.signIn(try jo("jo@example.com", "x"), configuration: configuration)
        expect(text(signIn?.body), equals: #"{"email":"jo@example.com","password":"x"}"#)
        let refresh = RequestCredentials.refresh(Secret("r"), configuration: configuration)
        expect(text(refresh?.body), equals: #"{"refreshToken":"r"}"#)
        expect(
            text(RequestCredentials.revocation(Secret("r"), configuration: configuration)?.body),
            equals: text(refresh?.body))
    }

    @Test("are the parameters of OAuth: RFC 6749 §4.3.2, §6 and RFC 7009 §2.1")
    func oauth() throws {
        let configuration = Configuration(
            path: "/token", credentials: .oauth, fixedMembers: [.init(name: "scope", value: "read write")])
        let signIn = RequestCredentials.signIn(try jo("jo", "x"), configuration: configuration)
        expect(text(signIn?.body), equals: "grant_type=password&username=jo&password=x&scope=read+write")
        let refresh = RequestCredentials.refresh(Secret("r/1"), configuration: configuration)
        expect(text(refresh?.body), equals: "grant_type=refresh_token&refresh_token=r%2F1&scope=read+write")
        let revocation = RequestCredentials.revocation(
            Secret("r"), configuration: Configuration(path: "/", credentials: .oauth))
        expect(text(revocation?.body), equals: "token=r&token_type_hint=refresh_token")
        for made in [signIn, refresh, revocation] { expect(made?.authorization == nil && made?.body?.type == .form) }
    }

    @Test("of the client are form-encoded before they are joined to Basic credentials: RFC 6749 §2.3.1")
    func clientBasic() throws {
        let configuration = Configuration(
            path: "/token", credentials: .oauth, client: .init(id: "a:b c", secret: Secret("s+%:é")))
        for made in [
            RequestCredentials.signIn(try jo("jo", "x"), configuration: configuration),
            RequestCredentials.refresh(Secret("r"), configuration: configuration),
            RequestCredentials.revocation(Secret("r"), configuration: configuration),
        ] {
            let expected = Data("a%3Ab+c:s%2B%25%3A%C3%A9".utf8).base64EncodedString()
            expect(text(made?.authorization), equals: "Basic \(expected)")
            expect(text(made?.body)?.contains("client_"), equals: false)
        }
    }

    @Test("of the client are members of the body with client_secret_post")
    func clientPost() throws {
        for format in [Configuration.CredentialFormat.json, .form, .oauth] {
            let configuration = Configuration(
                path: "/token", credentials: format,
                client: .init(id: "id", secret: Secret("s&t"), authentication: .post))
            let made = try require(RequestCredentials.refresh(Secret("r"), configuration: configuration))
            expect(made.authorization, equals: nil)
            let ending =
                format == .json ? #""client_id":"id","client_secret":"s&t"}"# : "client_id=id&client_secret=s%26t"
            expect(text(made.body)?.hasSuffix(ending), equals: true)
        }
    }

    @Test("never shift the border between a name and a password: Basic has no name with a colon")
    func colon() throws {
        for format in [Configuration.CredentialFormat.basic, .bearer] {
            let configuration = Configuration(path: "/auth", credentials: format)
            expect(RequestCredentials.signIn(try jo("jo:x", "y"), configuration: configuration) == nil)
            let made = RequestCredentials.signIn(try jo("jo", "x:y"), configuration: configuration)
            expect(text(made?.authorization), equals: "Basic " + Data("jo:x:y".utf8).base64EncodedString())
            expect(made?.body == nil)
        }
        for format in [Configuration.CredentialFormat.json, .form, .oauth] {
            let configuration = Configuration(path: "/auth", credentials: format)
            expect(RequestCredentials.signIn(try jo("jo:x", "y"), configuration: configuration) != nil)
        }
    }

    @Test("of a refresh without a body are the refresh token as Bearer")
    func bearer() {
        for format in [Configuration.CredentialFormat.basic, .bearer] {
            let configuration = Configuration(path: "/auth", credentials: format)
            for made in [
                RequestCredentials.refresh(Secret("r"), configuration: configuration),
                RequestCredentials.revocation(Secret("r"), configuration: configuration),
            ] {
                expect(text(made?.authorization), equals: "Bearer r")
                expect(made?.body == nil)
            }
        }
    }

    @Test("Rule 22: are not printed")
    func redacted() throws {
        for format in Configuration.CredentialFormat.allCases {
            let configuration = Configuration(
                path: "/", credentials: format, client: .init(id: "id", secret: Secret("canary-secret")))
            let made = RequestCredentials.signIn(try jo("jo", "canary-password"), configuration: configuration)
            expect(!String(reflecting: made).contains("canary"))
            expect(!String(reflecting: configuration).contains("canary"))
        }
    }
}
