import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

@Suite("The URL of a login", .timeLimit(.minutes(3)))
struct AuthorizationURLTests {
    private static let pushEndpoint = ("pushed_authorization_request_endpoint", #""ISSUER/par""# as String?)
    private static let pushed = ScriptedServer.json(
        #"{"request_uri":"urn:example:1","expires_in":60}"#, status: "201 Created")

    @Test("has the parameters of the request, at the endpoint of the metadata")
    func plain() async throws {
        try await ProviderFixture.run { configuration in
            configuration.parameters = [.init("prompt", "consent")]
        } body: { fixture in
            let url = try await fixture.authorizationURL(
                stepUp: .init(acr: ["urn:example:mfa"], maxAge: .seconds(600)))
            expect(url.hasPrefix(fixture.issuer + "/authorize?"))
            let form = url.form
            expect(form["client_id"], equals: "cloakroom")
            expect(form["redirect_uri"], equals: ProviderFixture.redirectURI)
            expect(form["code_challenge"], equals: fixture.secrets.challenge)
            expect(form["nonce"], equals: fixture.login.nonceText)
            expect(form["acr_values"], equals: "urn:example:mfa")
            expect(form["max_age"], equals: "600")
            expect(form["prompt"], equals: "consent")
        }
    }

    @Test("RFC 9126: has only the reference of a request that was pushed with the client's authentication")
    func pushed() async throws {
        try await ProviderFixture.run(metadata: [Self.pushEndpoint]) { server, _ in
            server.respond(to: "POST /par", with: Self.pushed)
        } body: { fixture in
            let url = try await fixture.authorizationURL()
            expect(url.form, equals: ["client_id": "cloakroom", "request_uri": "urn:example:1"])
            let request = try require(fixture.requests("POST /par").first)
            expect(request.field("Authorization"), equals: "Basic Y2xvYWtyb29tOmNhbmFyeS1jbGllbnQtc2VjcmV0")
            expect(request.form["code_challenge"], equals: fixture.secrets.challenge)
            expect(request.form["client_id"], equals: "cloakroom")
        }
    }

    @Test(
        "Identity rule 32: parameters of clients are in the URL or the pushed request, and replace configured ones",
        arguments: [true, false])
    func passed(isPushed: Bool) async throws {
        try await ProviderFixture.run(
            change: { $0.parameters = [.init("prompt", "consent"), .init("audience", "a")] },
            metadata: isPushed ? [Self.pushEndpoint] : []
        ) { server, _ in
            server.respond(to: "POST /par", with: Self.pushed)
        } body: { fixture in
            let url = try await fixture.authorizationURL(
                passed: [.init("prompt", "login"), .init("login_hint", "a b&c")])
            let request = fixture.requests("POST /par").first
            expect(request != nil, equals: isPushed)
            let form = (request ?? url).form
            expect(form["prompt"] == "login" && form["audience"] == "a" && form["login_hint"] == "a b&c")
        }
    }

    @Test("Pushed requests that a frozen provider holds are bounded for each client; further logins fail soon")
    func boundedPushes() async throws {
        try await ProviderFixture.run(metadata: [Self.pushEndpoint], timeout: .seconds(2)) { server, _ in
            server.handle("POST /par", [.silence])
        } body: { fixture in
            let failures = await withTaskGroup(of: Bool.self) { group in
                for number in 0..<40 {
                    group.addTask { (try? await fixture.authorizationURL(from: "192.0.2.\(number % 2)")) == nil }
                }
                return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
            }
            expect(failures, equals: 40)
            // Of each client those that are sent first, and those that wait until these have failed.
            #expect(fixture.requests("POST /par").count < 40)
            fixture.server.respond(to: "POST /par", with: Self.pushed)
            let url = try await fixture.authorizationURL()
            expect(url.form["request_uri"], equals: "urn:example:1")
        }
    }

    @Test("A pushed request with a secret in the form has no parameter twice")
    func pushedWithPost() async throws {
        try await ProviderFixture.run(
            change: { $0.client.authentication = .post(Secret("a b+c")) }, metadata: [Self.pushEndpoint]
        ) { server, _ in
            server.respond(to: "POST /par", with: Self.pushed)
        } body: { fixture in
            _ = try await fixture.authorizationURL()
            let request = try require(fixture.requests("POST /par").first)
            expect(request.field("Authorization"), equals: nil)
            expect(request.form["client_id"], equals: "cloakroom")
            expect(request.form["client_secret"], equals: "a b+c")
        }
    }

    @Test("`never` pushes nothing; `always` fails without the endpoint")
    func configured() async throws {
        try await ProviderFixture.run(change: { $0.pushed = .never }, metadata: [Self.pushEndpoint]) { fixture in
            let url = try await fixture.authorizationURL()
            expect(url.form["nonce"] != nil)
            expect(empty: fixture.requests("POST /par"))
        }
        try await ProviderFixture.run(change: { $0.pushed = .always }) { fixture in
            await #expect(throws: TokenClientError(.misconfigured(.notFound), in: .push)) {
                try await fixture.authorizationURL()
            }
        }
    }

    @Test(
        "A push that fails is no URL, and never falls back to a request in the URL",
        arguments: [
            (ProviderFixture.error("invalid_client", status: "401 No"), .misconfigured(.invalidClient)),
            (ProviderFixture.error("invalid_request"), .misconfigured(.invalidRequest)),
            (ProviderFixture.error("unknown_code"), .denied("unknown_code")),
            (ProviderFixture.error("Call 555-1"), .denied("other")),
            (ScriptedServer.json("", status: "413 Too Large"), .misconfigured(.requestRejected)),
            (ScriptedServer.json("", status: "429 Slow"), .unreachable),
            (ScriptedServer.json("", status: "503 Away"), .unreachable),
            (ScriptedServer.json("{}", status: "201 Created"), .failed(.invalidResponse)),
            (ScriptedServer.json(#"{"request_uri":"a b","expires_in":60}"#), .failed(.invalidResponse)),
            ("HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", .failed(.invalidResponse)),
            ("garbage\r\n\r\n", .failed(.invalidResponse)), ("", .unreachable),
        ] as [(String, TokenClientError.Kind)])
    func failedPush(response: String, kind: TokenClientError.Kind) async throws {
        try await ProviderFixture.run(metadata: [Self.pushEndpoint]) { server, _ in
            server.respond(to: "POST /par", with: response)
        } body: { fixture in
            await #expect(throws: TokenClientError(kind, in: .push)) { try await fixture.authorizationURL() }
        }
    }
}
