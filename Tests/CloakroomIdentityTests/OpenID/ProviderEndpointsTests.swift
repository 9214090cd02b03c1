import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

@Suite("A provider under another address than its issuer", .timeLimit(.minutes(3)))
struct ProviderEndpointsTests {
    private static let issuer = "https://id.cloakroom.invalid"
    private static let paths = [
        ("authorization_endpoint", "/authorize"), ("token_endpoint", "/token"), ("jwks_uri", "/jwks"),
        ("userinfo_endpoint", "/userinfo"), ("revocation_endpoint", "/revoke"), ("end_session_endpoint", "/logout"),
        ("pushed_authorization_request_endpoint", "/par"),
    ]

    /// The changes of the metadata for an issuer at another origin than the server.
    /// - Parameter origin: Of the endpoints; `ISSUER` is the server.
    private static func metadata(at origin: String) -> [(String, String?)] {
        var changes: [(String, String?)] = [("issuer", "\"\(issuer)\"")]
        for (name, path) in paths { changes.append((name, "\"\(origin)\(path)\"")) }
        return changes
    }

    @Test(
        "Identity rule 31: the base gets every call, whichever origin the metadata name; browsers see the issuer",
        arguments: ["ISSUER", issuer], ProviderEndpoints.Host.allCases)
    func calls(origin: String, host: ProviderEndpoints.Host) async throws {
        try await ProviderFixture.run(
            change: {
                $0.moveIssuer(to: Self.issuer)
                $0.endpoints.host = host
                $0.userSource = .userInfo
            }, metadata: Self.metadata(at: origin)
        ) { server, _ in
            server.respond(
                to: "POST /par",
                with: ScriptedServer.json(#"{"request_uri":"urn:a","expires_in":60}"#, status: "201 Created"))
            server.respond(to: "GET /userinfo", with: ScriptedServer.json(#"{"sub":"jo","name":"Jo"}"#))
            server.respond(to: "POST /revoke", with: ScriptedServer.json(""))
        } body: { fixture in
            let url = try await fixture.authorizationURL()
            expect(url.hasPrefix(Self.issuer + "/authorize?"))
            fixture.issue([("id_token", try fixture.idToken([("iss", "\"\(Self.issuer)\"")]))])
            let signIn = try await fixture.redeem()
            expect(signIn.provenance.issuer, equals: Self.issuer)
            try await fixture.provider.revoke(fixture.session().tokens, traceparent: nil)
            let end = fixture.provider.endSessionURL(signIn.provenance, publicURL: "https://app.example.com")
            expect(end?.hasPrefix(Self.issuer + "/logout?"), equals: true)
            // Metadata, keys, pushed request, code, user and revocation.
            let requests = fixture.server.requests
            expect(requests.count, equals: 6)
            let field = host == .issuer ? "id.cloakroom.invalid" : String(fixture.issuer.dropFirst("http://".count))
            expect(requests.allSatisfy { $0.field("Host") == field }, "\(requests)")
        }
    }

    @Test(
        "Identity rule 31: metadata of another issuer, or with an endpoint for secrets elsewhere, are rejected",
        arguments: [
            ("issuer", "ISSUER", .issuer("")), ("issuer", "https://other.example.com", .issuer("")),
            ("token_endpoint", "https://other.example.com/token", .origin("token_endpoint")),
            ("jwks_uri", "https://id.cloakroom.invalid:8443/jwks", .origin("jwks_uri")),
            ("userinfo_endpoint", "https://other.example.com/u", .origin("userinfo_endpoint")),
            ("revocation_endpoint", "https://other.example.com/r", .origin("revocation_endpoint")),
            ("token_endpoint", "http://id.cloakroom.invalid/token", .url("token_endpoint")),
            ("token_endpoint", "http://127.0.0.1:9/token", .url("token_endpoint")),
        ] as [(String, String, ProviderMetadata.ParseError)])
    func elsewhere(name: String, url: String, error: ProviderMetadata.ParseError) async throws {
        try await ProviderFixture.run(
            change: { $0.moveIssuer(to: Self.issuer) },
            metadata: Self.metadata(at: "ISSUER") + [(name, "\"\(url)\"")], isReady: false
        ) { fixture in
            await #expect(throws: TokenClientError(.unreachable, in: .push)) { try await fixture.authorizationURL() }
            let messages = fixture.events.compactMap { event -> String? in
                guard case .metadataRejected(let found) = event else { return nil }
                return found.finding.message
            }
            expect(messages.contains(error.finding.message), "\(messages)")
            expect(empty: fixture.requests("GET /jwks"))
        }
    }

    @Test("Identity rule 31: an introspection endpoint at a third origin is none, so that no token is sent to it")
    func introspectionElsewhere() async throws {
        try await ScriptedServer.run { port, third in
            let endpoint = ("introspection_endpoint", "\"http://127.0.0.1:\(port)/introspect\"" as String?)
            third.respond(to: "POST /introspect", with: ScriptedServer.json(#"{"active":false}"#))
            try await ProviderFixture.run(
                change: {
                    $0.accessTokens = .init()
                    $0.accessTokens?.introspection = .init()
                    $0.endpoints.base = WebOrigin($0.issuer)
                }, metadata: [endpoint]
            ) { fixture in
                let tokens = VerifiedTokens([[fixture.provider]], clock: { fixture.now })
                let outcome = await tokens.verify(
                    Secret("Bearer opaque"), site: 0, from: AuditContext(peer: "192.0.2.1", requestID: "r"))
                let problem: ProblemCode? = if case .failed(let problem) = outcome { problem.code } else { nil }
                expect(problem, equals: .identityUnavailable)
                let findings = fixture.events.flatMap { event -> [ProviderMetadata.Finding] in
                    if case .metadata(let findings) = event { findings } else { [] }
                }
                expect(findings.contains { $0.message.contains("introspection") })
                expect(empty: third.requests)
            }
        }
    }

    /// Endpoints without those that are optional.
    private static func fixed(at origin: String) -> ProviderEndpoints.Fixed? {
        guard let authorization = EndpointURL(origin + "/login"), let token = EndpointURL(origin + "/token"),
            let keys = EndpointURL(origin + "/jwks")
        else { return nil }
        return ProviderEndpoints.Fixed(authorization: authorization, token: token, keys: keys)
    }

    @Test("Configured endpoints replace the metadata, which are not requested")
    func fixed() async throws {
        try await ProviderFixture.run(change: { $0.endpoints.fixed = Self.fixed(at: $0.issuer) }) { fixture in
            let url = try await fixture.authorizationURL()
            expect(url.hasPrefix(fixture.issuer + "/login?"))
            fixture.issue([("id_token", try fixture.idToken())])
            let signIn = try await fixture.redeem()
            expect(fixture.provider.endSessionURL(signIn.provenance, publicURL: "https://app.example.com"), equals: nil)
            try await fixture.provider.revoke(fixture.session().tokens, traceparent: nil)
            expect(fixture.events.first, equals: .metadata([]))
            expect(fixture.server.requests.count, equals: 2)
            expect(fixture.requests("GET /jwks").count == 1 && fixture.tokenRequests.count == 1)
        }
    }
}
