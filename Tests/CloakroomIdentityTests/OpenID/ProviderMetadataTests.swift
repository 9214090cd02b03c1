import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomIdentity

@Suite("The metadata of a provider")
struct ProviderMetadataTests {
    private static let issuer = "https://id.example.com"
    private static let required: [(String, String)] = [
        ("issuer", #""https://id.example.com""#), ("authorization_endpoint", #""https://id.example.com/authorize""#),
        ("token_endpoint", #""https://id.example.com/token""#), ("jwks_uri", #""https://id.example.com/jwks""#),
    ]

    private func document(_ changes: [(String, String?)] = []) -> [UInt8] {
        var members = Self.required
        for (name, value) in changes {
            members.removeAll { $0.0 == name }
            if let value { members.append((name, value)) }
        }
        return Array("{\(members.map { "\"\($0)\":\($1)" }.joined(separator: ","))}".utf8)
    }

    private func error(_ changes: [(String, String?)], issuer: String = issuer) -> ProviderMetadata.ParseError? {
        do throws(ProviderMetadata.ParseError) {
            _ = try ProviderMetadata(document(changes), issuer: issuer)
            return nil
        } catch {
            return error
        }
    }

    @Test("The shortest document has an issuer and three endpoints")
    func shortest() throws {
        let metadata = try ProviderMetadata(document(), issuer: Self.issuer)
        expect(metadata.tokenEndpoint.text, equals: "https://id.example.com/token")
        expect(metadata.userInfoEndpoint, equals: nil)
        expect(!metadata.announcesIssuer)
        expect(!metadata.requiresPushedRequests)
    }

    @Test(
        "Identity rule 6: the metadata of another issuer is rejected",
        arguments: [
            "https://evil.example", "https://id.example.com/", "https://ID.example.com", "http://id.example.com",
            "https://id.example.com/tenant", "",
        ])
    func metadataOfAnotherIssuerIsRefused(issuer: String) {
        expect(error([("issuer", "\"\(issuer)\"")]), equals: .issuer(issuer))
    }

    @Test(
        "A required member that is missing is named",
        arguments: ["issuer", "authorization_endpoint", "token_endpoint", "jwks_uri"])
    func missing(name: String) {
        expect(error([(name, nil)]), equals: .missing(name))
        expect(error([(name, "null")]), equals: .missing(name))
        expect(error([(name, "1")]), equals: .type(name))
    }

    @Test("Each reason to reject a document names its member and what to do")
    func findings() {
        let errors: [ProviderMetadata.ParseError] = [
            .malformed, .issuer("a"), .missing("jwks_uri"), .url("jwks_uri"), .origin("jwks_uri"), .type("jwks_uri"),
        ]
        expect(Set(errors.map(\.finding.message)).count, equals: errors.count)
        for error in errors {
            expect(error.finding.message.contains("jwks_uri"), equals: "\(error)".contains("jwks_uri"))
            expect(!error.finding.remedy.isEmpty)
        }
    }

    @Test(
        "The issuer of the metadata is shown, unless it is no URL",
        arguments: [
            ("https://id.example.com/", true), ("a\nb", false), ("https://id.example.com/\u{1b}[0m", false),
        ])
    func otherIssuer(named: String, isShown: Bool) {
        let remedy = ProviderMetadata.ParseError.issuer(named).finding.remedy
        let advice = isShown ? "write issuer: \(named)" : "copy issuer from the metadata"
        expect(remedy, equals: "\(advice) if this is the provider: a slash at its end counts")
    }

    @Test(
        "Identity rule 6: endpoints are https, or http on this machine",
        arguments: [
            "http://id.example.com/x", "ftp://id.example.com", "//id.example.com", "/token", "", "https://",
            "https://a b",
            "https://user@id.example.com/", "https://id.example.com/#x", "https://id.example.com\\\\@evil.example/",
            "HTTPS://id.example.com/", "https://id.example.com:0/", "https://id.example.com:99999/",
            "http://localhost.example.com/", "http://127.0.0.1.example.com/", "http://[::2]/", "http://0.0.0.0/",
        ])
    func endpoints(url: String) {
        for name in [
            "authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint", "end_session_endpoint",
        ] {
            expect(error([(name, "\"\(url)\"")]), equals: .url(name))
        }
    }

    @Test(
        "http is accepted on loopback for an issuer on loopback, and for no other: it would reach services of this machine",
        arguments: ["http://127.0.0.1:8080/token", "http://localhost/token", "http://[::1]:9/t", "http://127.9.9.9/"])
    func loopback(url: String) {
        let local = ("issuer", #""http://127.0.0.1:8080""# as String?)
        expect(error([local, ("token_endpoint", "\"\(url)\"")], issuer: "http://127.0.0.1:8080"), equals: nil)
        expect(error([("token_endpoint", "\"\(url)\"")]), equals: .url("token_endpoint"))
    }

    @Test(
        "An introspection endpoint that cannot be called is none: sign-ins do not need it",
        arguments: [#""http://id.example.com/i""#, #""/i""#, "1"])
    func introspectionEndpoint(value: String) throws {
        let metadata = try ProviderMetadata(document([("introspection_endpoint", value)]), issuer: Self.issuer)
        expect(metadata.introspectionEndpoint, equals: nil)
        var identity = IdentityConfiguration(
            name: "company", issuer: Self.issuer,
            client: IdentityClientConfiguration(id: "c", authentication: .basic(Secret("s"))))
        identity.accessTokens = .init()
        expect(!metadata.findings(for: identity).contains { $0.message.contains("introspection") })
        identity.accessTokens?.introspection = .init()
        expect(metadata.findings(for: identity).contains { $0.message.contains("introspection") })
    }

    @Test("A member of the wrong type, a member twice and a document beyond 64 KiB are rejected")
    func malformed() {
        expect(
            error([("authorization_response_iss_parameter_supported", "\"true\"")]),
            equals: .type("authorization_response_iss_parameter_supported"))
        expect(error([("response_types_supported", "\"code\"")]), equals: .type("response_types_supported"))
        expect(error([("response_types_supported", "[1]")]), equals: .type("response_types_supported"))
        let twice = Array(#"{"issuer":"https://id.example.com","issuer":"https://id.example.com"}"#.utf8)
        for document in [twice, [], Array("[]".utf8), Array("{".utf8)] {
            #expect(throws: ProviderMetadata.ParseError.malformed) {
                try ProviderMetadata(document, issuer: Self.issuer)
            }
        }
        let padding = [UInt8](repeating: 0x20, count: ProviderMetadata.maxSize - document().count)
        #expect(throws: Never.self) { try ProviderMetadata(document() + padding, issuer: Self.issuer) }
        #expect(throws: ProviderMetadata.ParseError.malformed) {
            try ProviderMetadata(document() + padding + [0x20], issuer: Self.issuer)
        }
    }

    @Test("Discovery §4.1: the document is below the issuer, without a second slash")
    func location() {
        expect(
            ProviderMetadata.url(ofIssuer: "https://id.example.com"),
            equals: "https://id.example.com/.well-known/openid-configuration")
        expect(
            ProviderMetadata.url(ofIssuer: "https://id.example.com/t/"),
            equals: "https://id.example.com/t/.well-known/openid-configuration")
    }

    @Test(
        "A provider that cannot do what is configured is named with a remedy",
        arguments: [
            ("response_types_supported", #"["id_token"]"#), ("grant_types_supported", #"["implicit"]"#),
            ("code_challenge_methods_supported", #"["plain"]"#),
            ("token_endpoint_auth_methods_supported", #"["private_key_jwt"]"#),
            ("id_token_signing_alg_values_supported", #"["none","HS256"]"#),
        ])
    func findings(name: String, value: String) throws {
        let identity = IdentityConfiguration(
            name: "company", issuer: Self.issuer,
            client: IdentityClientConfiguration(id: "c", authentication: .basic(Secret("s"))))
        let good = try ProviderMetadata(document(), issuer: Self.issuer)
        expect(good.findings(for: identity), equals: [])
        let findings = try ProviderMetadata(document([(name, value)]), issuer: Self.issuer).findings(for: identity)
        expect(findings.count, equals: 1)
        expect(findings.allSatisfy { !$0.remedy.isEmpty })
    }

    @Test("A list of a provider costs linear time, also with a text that is slow to normalize")
    func linear() throws {
        let identity = IdentityConfiguration(
            name: "company", issuer: Self.issuer,
            client: IdentityClientConfiguration(id: "c", authentication: .basic(Secret("s"))))
        let ratio = LinearTime.ratio(ofMarks: {
            let list = document([("response_types_supported", #"["\#($0)"]"#)])
            _ = try? ProviderMetadata(list, issuer: Self.issuer).findings(for: identity)
        })
        #expect(ratio < 4, "\(ratio)")
    }

    @Test("RFC 9126: whether requests are pushed follows the configuration and the endpoint")
    func pushing() throws {
        var identity = IdentityConfiguration(
            name: "company", issuer: Self.issuer,
            client: IdentityClientConfiguration(id: "c", authentication: .basic(Secret("s"))))
        let without = try ProviderMetadata(document(), issuer: Self.issuer)
        let with = try ProviderMetadata(
            document([
                ("pushed_authorization_request_endpoint", #""https://id.example.com/par""#),
                ("require_pushed_authorization_requests", "true"),
            ]), issuer: Self.issuer)
        expect(with.pushes(identity) && !without.pushes(identity))
        identity.pushed = .never
        expect(!with.pushes(identity))
        expect(with.findings(for: identity).count, equals: 1)
        identity.pushed = .always
        expect(without.findings(for: identity).count, equals: 1)
    }
}
