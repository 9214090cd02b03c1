import CloakroomConfig
import Foundation
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("The section of an identity call")
struct IdentityEndpointSectionTests {
    /// The first upstream of the valid configuration with other token calls; `signIn` begins in line 7, column 5.
    private static func fixture(_ keys: String, accounts: String = "") throws -> ConfigFixture {
        let lines = keys.split(separator: "\n", omittingEmptySubsequences: false).joined(separator: "\n    ")
        return try ConfigFixture(
            ConfigFixture.good.replacingOccurrences(of: "signIn: { path: /auth }", with: lines) + accounts)
    }

    private static let login = "signIn: { path: /auth }\n"

    private static func upstream(_ keys: String) throws -> UpstreamConfiguration {
        try fixture(keys).load().configuration.upstreams[0]
    }

    private static func errors(_ keys: String, accounts: String = "") throws -> [String] {
        try fixture(keys, accounts: accounts).valueErrors()
    }

    @Test("sets names, static members in their order, the client, a sign of success and the path of error codes")
    func everyKey() throws {
        let upstream = try Self.upstream(
            """
            client: { id: gateway, secret: k7Tq, authentication: client_secret_post }
            errorCode: result.code
            signIn:
              path: /login
              credentials: form
              members: { name: user, password: pass }
              static: { realm: main, app: "1", note: "" }
              success: result.ok=yes
            refresh: { path: /again, credentials: json, members: { refreshToken: token }, endsOn: [expired, any400] }
            revoke: { path: /end, credentials: form, members: { refreshToken: token } }
            user: { path: /me, success: ok }
            """)
        let client = IdentityEndpointConfiguration.Client(
            id: "gateway", secret: Secret("k7Tq"), authentication: .post)
        expect(
            upstream.signIn,
            equals: IdentityEndpointConfiguration(
                path: "/login", credentials: .form, members: .init(name: "user", password: "pass"),
                fixedMembers: [
                    .init(name: "realm", value: "main"), .init(name: "app", value: "1"),
                    .init(name: "note", value: ""),
                ], client: client, success: .init(path: "result.ok", value: "yes"), errorCode: "result.code"))
        expect(
            upstream.refresh,
            equals: IdentityEndpointConfiguration(
                path: "/again", credentials: .json, members: .init(refreshToken: "token"),
                client: client, errorCode: "result.code", endsOn: ["expired", "any400"]))
        expect(
            upstream.revoke,
            equals: IdentityEndpointConfiguration(
                path: "/end", credentials: .form, members: .init(refreshToken: "token"), client: client,
                errorCode: "result.code"))
        expect(
            upstream.user,
            equals: IdentityEndpointConfiguration(
                method: "GET", path: "/me", success: .init(path: "ok", value: "true"),
                errorCode: "result.code"))
    }

    @Test("with oauth has the names of RFC 6749, unless others are set")
    func oauth() throws {
        let upstream = try Self.upstream(
            """
            client: { id: a, secret: k7Tq }
            signIn: { path: /token, credentials: oauth, static: { scope: read write } }
            refresh: { path: /token, credentials: oauth, accessToken: data.token }
            """)
        let signIn = try require(upstream.signIn)
        expect(signIn.accessToken, equals: "access_token")
        expect(signIn.refreshToken, equals: "refresh_token")
        expect(signIn.expiresIn, equals: "expires_in")
        expect(signIn.fixedMembers, equals: [.init(name: "scope", value: "read write")])
        expect(signIn.client, equals: .init(id: "a", secret: Secret("k7Tq")))
        expect(upstream.refresh?.accessToken, equals: "data.token")
        expect(upstream.refresh?.endsOn, equals: nil)
    }

    @Test("takes static members and the client secret from flags, variables and files too")
    func otherSources() throws {
        let fixture = try Self.fixture(
            """
            signIn: { path: /token, credentials: oauth, static: { scope: read } }
            client: { id: a, secretFile: client }
            """
        )
        try fixture.write("k7Tq-from-file\n", to: "client")
        let loaded = try fixture.load(
            environment: ["CLOAKROOM_UPSTREAMS_API_SIGN_IN_STATIC_SCOPE": "write"],
            overrides: [("upstreams.api.signIn.static.audience", "films")])
        let signIn = try require(loaded.configuration.upstreams[0].signIn)
        expect(signIn.client?.secret, equals: Secret("k7Tq-from-file"))
        expect(
            signIn.fixedMembers,
            equals: [.init(name: "scope", value: "write"), .init(name: "audience", value: "films")])
    }

    @Test(
        "reports what the credential format cannot use",
        arguments: [
            ("signIn: { path: /a, static: { a: b } }", "static"),
            ("signIn: { path: /a, members: { name: b } }", "members"),
            ("signIn: { path: /a, credentials: oauth, client: { id: a } }", "client"),
            ("signIn: { path: /a, errorCode: a }", "errorCode"),
            ("signIn: { path: /a, credentials: oauth, members: { name: b } }", "members"),
            ("signIn: { path: /a, credentials: oauth, method: PUT }", "method"),
            ("signIn: { path: /a, credentials: oauth, static: { grant_type: b } }", "static.grant_type"),
            ("signIn: { path: /a, credentials: form, static: { email: b } }", "static.email"),
            ("signIn: { path: /a, credentials: oauth, static: { client_secret: k7Tq } }", "static.client_secret"),
            ("signIn: { path: /a, credentials: json, static: { client_assertion: k7Tq } }", "static.client_assertion"),
            ("signIn: { path: /a, credentials: form, static: { \"a\\u0001b\": c } }", "static.a\\u{1}b"),
            ("signIn: { path: /a, credentials: form, static: { a: \"b\\r\\nc\" } }", "static.a"),
            ("signIn: { path: /a, credentials: form, members: { name: password } }", "members"),
            ("signIn: { path: /a, credentials: form, members: { name: \"\" } }", "members.name"),
            ("signIn: { path: /a, credentials: form, endsOn: [a] }", "endsOn"),
            ("signIn: { path: /a, success: { member: a } }", "success"),
            ("signIn: { path: /a, success: =a }", "success"), ("signIn: { path: /a, success: a..b=c }", "success"),
            ("signIn: { path: /a, credentials: form, static: [a] }", "static"),
            ("signIn: { path: /a, credentials: form, static: { a: { b: c } } }", "static.a"),
        ])
    func mistakes(keys: String, key: String) throws {
        let errors = try Self.errors(keys)
        expect(errors.count, equals: 1, "\(errors)")
        expect(errors.first?.contains("upstreams.api.signIn.\(key): "), equals: true, "\(errors)")
        expect(errors.first?.hasPrefix("cloakroom.yaml:7:"), equals: true, "\(errors)")
    }

    @Test(
        "reports clients that no call can use, rules that would end sessions by mistake, and keys without a use",
        arguments: [
            ("client: { id: a }\nsignIn: { path: /a, credentials: form }", "client.secret: "),
            ("client: { secret: k7Tq }\nsignIn: { path: /a, credentials: form }", "client.id: "),
            ("client: { id: a, secret: k7Tq }\nsignIn: { path: /a }\nuser: { path: /me }", "client: "),
            ("\(login)refresh: { path: /a, endsOn: [invalid_client] }", "refresh.endsOn.0: "),
            ("\(login)refresh: { path: /a, endsOn: [invalid_grant, unauthorized_client] }", "refresh.endsOn.1: "),
            ("\(login)refresh: { path: /a, endsOn: [] }", "refresh.endsOn: "),
            ("\(login)refresh: { path: /a, endsOn: [\"a b\"] }", "refresh.endsOn.0: "),
            (
                "\(login)refresh: { path: /a, credentials: oauth, rejectedStatuses: [400] }",
                "refresh.rejectedStatuses: "
            ),
            ("\(login)user: { path: /me, credentials: bearer }", "user.credentials: unknown key"),
            ("\(login)user: { path: /me, accessToken: a }", "user.accessToken: unknown key"),
            ("\(login)revoke: { path: /me, expiresIn: a }", "revoke.expiresIn: unknown key"),
            ("\(login)revoke: { path: /me, success: a }", "revoke.success: unknown key"),
        ])
    func otherMistakes(keys: String, message: String) throws {
        let errors = try Self.errors(keys)
        expect(errors.count == 1 && errors[0].contains("upstreams.api.\(message)"), "\(errors)")
    }

    @Test("sends the client with the calls that have a body only")
    func clientOfSomeCalls() throws {
        let upstream = try Self.upstream(
            """
            client: { id: a, secret: k7Tq }
            signIn: { path: /a }
            refresh: { path: /b, credentials: oauth }
            """)
        expect(upstream.signIn?.client == nil && upstream.refresh?.client?.id == "a")
    }

    @Test("takes names of members with any visible characters")
    func names() throws {
        let upstream = try Self.upstream(
            """
            signIn:
              path: /a
              credentials: form
              members: { name: "user[name]", password: "user[pass word]" }
              static: { "user.realm": a, "a&b=c": "d&e=f", "n\u{e4}me": "%00+" }
            """)
        let signIn = try require(upstream.signIn)
        expect(signIn.members, equals: .init(name: "user[name]", password: "user[pass word]"))
        expect(
            signIn.fixedMembers,
            equals: [
                .init(name: "user.realm", value: "a"), .init(name: "a&b=c", value: "d&e=f"),
                .init(name: "n\u{e4}me", value: "%00+"),
            ])
    }

    @Test("accounts.name has a member and a kind")
    func accountName() throws {
        let keys = "signIn: { path: /auth }"
        try expect(Self.upstream(keys).signIn != nil)
        try expect(ConfigFixture().load().configuration.accounts.name, equals: .init(member: "email", kind: .email))
        let named = try Self.fixture(keys, accounts: "accounts: { name: { member: username, kind: text } }\n").load()
        expect(named.configuration.accounts.name, equals: .init(member: "username", kind: .text))
        for (name, key) in [("member: password", "member"), ("kind: phone", "kind"), ("member: \"\"", "member")] {
            let errors = try Self.errors(keys, accounts: "accounts: { name: { \(name) } }\n")
            expect(errors.count == 1 && errors[0].contains("accounts.name.\(key): "), "\(errors)")
        }
    }
}
