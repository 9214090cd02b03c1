import CloakroomTLS
import Foundation
import NIOPosix
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomIdentity

/// Rules 6 and 14 of the design of identities, with a server.
@Suite("Metadata and keys of a provider", .timeLimit(.minutes(3)))
struct ProviderDiscoveryTests {
    private func error(_ fixture: ProviderFixture) async -> TokenClientError? {
        await thrown { () throws(TokenClientError) in try await fixture.authorizationURL() }
    }

    @Test("are fetched once at the start, and by no login")
    func once() async throws {
        try await ProviderFixture.run { fixture in
            for _ in 0..<3 { _ = try await fixture.authorizationURL() }
            expect(fixture.server.requests.count, equals: 2)
            expect(fixture.events, equals: [.metadata([]), .keys(.replaced(usable: 1, skipped: 0))])
            await expect(fixture.provider.status(), equals: ProviderStatus(hasMetadata: true, keys: .fresh))
        }
    }

    @Test("of another issuer do not replace earlier ones, whose endpoints stay in use")
    func laterIssuer() async throws {
        try await ProviderFixture.run { fixture in
            fixture.server.respond(
                to: ProviderFixture.discovery,
                with: ScriptedServer.json(
                    ProviderFixture.metadata(
                        issuer: "https://evil.example.com", [("jwks_uri", "\"\(fixture.issuer)/evil\"")])))
            try fixture.rotate()
            _ = try await fixture.redeem()
            expect(fixture.events.contains(.metadataRejected(.issuer("https://evil.example.com"))))
            expect(empty: fixture.requests("GET /evil"))
        }
    }

    @Test(
        "are not accepted from a redirect, another status, or a document of another issuer, invalid or too large",
        arguments: [
            "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            ScriptedServer.json("{}", status: "404 Not Found"), ScriptedServer.json("{}", status: "500 Error"),
            ScriptedServer.json("{}", status: "201 Created"), ScriptedServer.json("{}"), ScriptedServer.json("[]"),
            ScriptedServer.json("<html>"), ScriptedServer.json(String(repeating: " ", count: 65_537)),
            "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", "garbage\r\n\r\n", "",
            ScriptedServer.json(ProviderFixture.metadata(issuer: "https://id.example.com")),
        ])
    func rejectedMetadata(response: String) async throws {
        try await ProviderFixture.run(isReady: false) { server, _ in
            server.respond(to: ProviderFixture.discovery, with: response)
            server.respond(to: "GET /elsewhere", with: ScriptedServer.json(#"{"issuer":"x"}"#))
        } body: { fixture in
            await expect(error(fixture), equals: TokenClientError(.unreachable, in: .push))
            expect(!fixture.events.contains(.metadata([])))
            expect(empty: fixture.requests("GET /elsewhere"))
            expect(empty: fixture.requests("GET /jwks"))
            await expect(fixture.provider.status(), equals: ProviderStatus(hasMetadata: false, keys: .none))
        }
    }

    @Test("that never arrive, or arrive too slowly, cost a login one time limit", arguments: [true, false])
    func frozen(isSilent: Bool) async throws {
        try await ProviderFixture.run(timeout: .milliseconds(300), isReady: false) { server, _ in
            server.handle(
                ProviderFixture.discovery,
                [isSilent ? .silence : .bytes("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")])
        } body: { fixture in
            let start = ContinuousClock.now
            await expect(error(fixture), equals: TokenClientError(.unreachable, in: .push))
            #expect(ContinuousClock.now - start < .seconds(5))
            expect(fixture.events.contains(.metadataUnavailable))
        }
    }

    @Test("A thousand logins wait for one fetch")
    func oneFlight() async throws {
        try await ProviderFixture.run(isReady: false) { fixture in
            try await withThrowingTaskGroup(of: String.self) { group in
                // An address has a share of the waits.
                for index in 0..<1_000 {
                    group.addTask { try await fixture.authorizationURL(from: "10.0.\(index / 250).\(index % 250)") }
                }
                var urls: Set<String> = []
                for try await url in group { urls.insert(url) }
                expect(urls.count, equals: 1)
            }
            expect(fixture.server.requests.count, equals: 2)
        }
    }

    @Test("While the provider is unavailable, logins fail at once and cause no calls of their own")
    func backOff() async throws {
        try await ProviderFixture.run(isReady: false) { server, _ in
            server.handle(ProviderFixture.discovery, [.close])
        } body: { fixture in
            _ = await error(fixture)
            try await eventually("both first fetches") { fixture.events.count >= 2 }
            let before = fixture.server.requests.count
            let start = ContinuousClock.now
            for _ in 0..<100 { await expect(error(fixture), equals: TokenClientError(.unreachable, in: .push)) }
            #expect(ContinuousClock.now - start < .seconds(5))
            // Only the fetches in the background, each with its retry.
            #expect(fixture.server.requests.count - before <= 8)
        }
    }

    @Test("A provider that becomes available is used without a restart")
    func recovers() async throws {
        try await ProviderFixture.run(isReady: false) { server, issuer in
            server.handle(
                ProviderFixture.discovery,
                [
                    .close, .close,
                    .bytesThenClose(ScriptedServer.json(ProviderFixture.metadata(issuer: issuer))),
                ])
        } body: { fixture in
            try await eventually("the second fetch") { await fixture.provider.status().keys == .fresh }
            _ = try await fixture.authorizationURL()
        }
    }

    @Test(
        "The lifetime of both documents is the shorter one, and one hour without one",
        arguments: [
            (nil, nil, 3_600), ("max-age=600", nil, 600), (nil, "max-age=600", 600), ("max-age=7200", nil, 3_600),
            ("max-age=7200", "max-age=90000", 7_200), ("no-store", "max-age=7200", 300), ("public", "public", 3_600),
        ] as [(String?, String?, Int)])
    func lifetime(metadata: String?, keys: String?, seconds: Int) async throws {
        func response(_ body: String, _ cacheControl: String?) -> String {
            "HTTP/1.1 200 OK\r\nContent-Length: \(body.utf8.count)\r\nConnection: close\r\n"
                + (cacheControl.map { "Cache-Control: \($0)\r\n" } ?? "") + "\r\n\(body)"
        }
        try await ScriptedServer.run { port, server in
            let issuer = "http://127.0.0.1:\(port)"
            server.respond(
                to: ProviderFixture.discovery, with: response(ProviderFixture.metadata(issuer: issuer), metadata))
            server.respond(to: "GET /jwks", with: response(#"{"keys":[]}"#, keys))
            let transport = ProviderTransport(
                tls: try UpstreamTLS.configuration(nil), timeouts: TimeoutsConfiguration(),
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton, spans: SpanFactory(tracer: nil))
            let discovery = ProviderDiscovery(
                IdentityConfiguration(
                    name: "company", issuer: issuer,
                    client: IdentityClientConfiguration(id: "cloakroom", authentication: .basic(Secret("a")))),
                transport: transport, timeout: .seconds(10), report: { _ in })
            let response = try? await discovery.fetch()
            await transport.shutdown()
            expect(response?.lifetime, equals: .seconds(seconds))
        }
    }

    @Test("Endpoints of another origin are called there, with their query")
    func origins() async throws {
        try await ScriptedServer.run { port, other in
            try await ProviderFixture.run(
                metadata: [("token_endpoint", "\"http://127.0.0.1:\(port)/token?tenant=1\"")]
            ) { fixture in
                other.respond(
                    to: "POST /token?tenant=1",
                    with: ProviderFixture.error("invalid_grant"))
                await expect(fixture.rejection(of: "")?.kind, equals: .denied("invalid_grant"))
                expect(empty: fixture.tokenRequests)
                expect(other.requests.last?.field("Host"), equals: "127.0.0.1:\(port)")
            }
        }
    }

    @Test("Differences to the configuration are reported with the metadata")
    func findings() async throws {
        try await ProviderFixture.run(
            metadata: [("code_challenge_methods_supported", #"["plain"]"#)]
        ) { fixture in
            guard case .metadata(let findings)? = fixture.events.first else {
                Issue.record("no metadata")
                return
            }
            expect(findings.map(\.message), equals: ["the provider does not support PKCE with S256"])
        }
    }

    // MARK: - Rotation

    @Test("Preparing waits for the first metadata and keys, and fails without them")
    func prepares() async throws {
        try await ProviderFixture.run(isReady: false) { fixture in
            try await fixture.provider.prepare(from: "192.0.2.1")
            expect(fixture.server.requests.count, equals: 2)
        }
        try await ProviderFixture.run(
            metadata: [("authorization_response_iss_parameter_supported", "true")], isReady: false
        ) { fixture in
            try await fixture.provider.prepare(from: "192.0.2.1")
            expect(fixture.provider.announcesIssuer)
        }
        try await ProviderFixture.run(isReady: false) { server, _ in
            server.handle(ProviderFixture.discovery, [.close])
        } body: { fixture in
            await #expect(throws: TokenClientError(.unreachable, in: .discovery)) {
                try await fixture.provider.prepare(from: "192.0.2.1")
            }
        }
    }

    @Test("Keys that cannot be fetched spend no code")
    func noKeys() async throws {
        try await ProviderFixture.run(isReady: false) { server, _ in
            server.respond(to: "GET /jwks", with: ScriptedServer.json("{}", status: "503 Unavailable"))
        } body: { fixture in
            await expect(fixture.rejection(of: ProviderFixture.tokens())?.kind, equals: .unreachable)
            expect(empty: fixture.tokenRequests)
            await #expect(throws: TokenClientError(.unreachable, in: .keys)) {
                try await fixture.provider.verifyLogoutToken(
                    try fixture.logoutToken(), from: "", now: fixture.now)
            }
        }
    }

    /// Whether a provider of another configuration can be used at once, after one with the given configuration.
    private func isUsableAtOnce(
        after change: (inout IdentityConfiguration) -> Void = { _ in }, of fixture: ProviderFixture
    ) async throws -> Bool {
        var configuration = fixture.provider.configuration
        change(&configuration)
        let next = try OpenIDProvider(
            configuration, previous: fixture.provider,
            timeouts: TimeoutsConfiguration(), eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            clock: { fixture.now })
        let status = await next.status()
        // Whatever has changed, what clients have in progress or let wait counts as before.
        expect(next.pushes === fixture.provider.pushes && next.introspections === fixture.provider.introspections)
        expect(next.keys.queues.waits === fixture.provider.keys.queues.waits)
        let provenance = try require(fixture.session().provenance)
        let hasURL = next.endSessionURL(provenance, publicURL: "https://app.example.com") != nil
        await next.shutdown()
        expect(status.keys == .fresh, equals: status.hasMetadata)
        expect(hasURL, equals: status.hasMetadata)
        return status.hasMetadata
    }

    @Test(
        "After a reload those of the same issuer remain in use; another issuer, other trust roots or algorithms do not")
    func reload() async throws {
        try await ProviderFixture.run { fixture in
            let unchanged = try await isUsableAtOnce(of: fixture)
            expect(unchanged)
            let otherClient = try await isUsableAtOnce(
                after: {
                    $0.client.id = "other"
                    $0.scopes = ["openid"]
                    $0.logout.returnTo = "/bye"
                }, of: fixture)
            expect(otherClient)
            let otherIssuer = try await isUsableAtOnce(after: { $0.issuer += "/" }, of: fixture)
            expect(!otherIssuer)
            let otherAddress = try await isUsableAtOnce(
                after: { $0.endpoints.base = WebOrigin("http://localhost:1") }, of: fixture)
            expect(!otherAddress)
            let otherAlgorithms = try await isUsableAtOnce(after: { $0.algorithms = [.es256] }, of: fixture)
            expect(!otherAlgorithms)
        }
    }
}
