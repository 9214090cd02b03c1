import Foundation
import Logging
import NIOPosix
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomSessions
@testable import MockAPI

/// A user of a provider, from the sign-in to the sign-out, behind each real proxy with its file in `deploy/forward-auth`.
@Suite("Sessions of a provider behind nginx, Caddy, Envoy and Traefik", .serialized, .timeLimit(.minutes(5)))
struct FrontProxyJourneyTests {
    /// A proxy, what is behind it, and a browser in front.
    private struct Site {
        let proxy: FrontProxy
        let mock: RunningMockAPI
        let provider: MockProvider
        let sessions: SessionStoreFixture
        let browser = FormBrowser()

        private var base: String { "http://127.0.0.1:\(proxy.port)" }
        var ticket: String? { browser.cookies(of: base)[WebClient.cookieName] }

        /// Sends a request to the proxy as one for its host, or to the provider.
        func send(
            _ method: String, _ url: String, _ fields: [(String, String)] = FormBrowser.fetch, body: String? = nil,
            as browser: FormBrowser? = nil
        ) async throws -> TestResponse {
            let browser = browser ?? self.browser
            guard let target = Self.target(of: url) else { return try await browser.send(method, url, fields) }
            return try await browser.send(method, base + target, fields + [("Host", FrontProxy.host)], body: body)
        }

        /// Path and query of a URL of the proxy's host; `nil` for one of the provider.
        private static func target(of url: String) -> String? {
            if url.hasPrefix("/") { return url }
            let origin = ["http://", "https://"].map { $0 + FrontProxy.host + "/" }.first { url.hasPrefix($0) }
            return origin.map { "/" + url.dropFirst($0.count) }
        }

        /// Navigates to a path, and on from there to the provider and back.
        func visit(_ path: String) async throws -> TestResponse {
            try await eventually("the provider is known") {
                var url = path
                for _ in 0..<10 {
                    let response = try await send("GET", url, FormBrowser.navigation)
                    guard let next = response.values(of: "Location").first ?? response.refreshTarget else {
                        return response.status == 503 ? nil : response
                    }
                    url = next
                }
                throw FormBrowser.TooManySteps(url: url)
            }
        }

        /// The values of a field of all requests that the API has received with a path, oldest first.
        func received(_ field: String, _ path: String) -> [String] {
            mock.observations.snapshot().recent.filter { $0.path == path }.flatMap { $0.values(of: field) }
        }
    }

    private static let (bytes, echo, slow) = ("/__mock/bytes", "/__mock/echo", "/__mock/slow")
    private static let page = bytes + "?count=3"
    private static let strong = slow + "?seconds=0"

    private static func yaml(
        _ kind: FrontProxy.Kind, _ ports: FrontProxy.Ports, issuer: String, token: String
    ) -> String {
        let common = "hosts: [\(FrontProxy.host)], inject: [apiToken, bearer], requiresAuthorization: true"
        let page = "methods: [GET], upstream: api, onMissingSession: login, \(common)"
        let acr = "require: { acr: [\"urn:example:mfa\"], maxAge: 5m }"
        return FrontProxy.listeners(kind, ports) + """
            identities:
              company:
                issuer: \(issuer)
                client: { id: cloakroom, secret: cloakroom-client-secret }
                tokensFor: [api]
                exchange: { billing: { audience: https://billing.example.com } }
            accounts: { publicURL: "https://\(FrontProxy.host)", throttle: false }
            upstreams:
              api: { external: true, apiToken: { value: \(token) }, claimHeaders: { X-Account-Id: sub } }
              billing: { external: true, apiToken: { value: \(token) } }
            routes:
              - { name: episodes, methods: [GET], path: /episodes, upstream: api, hosts: [\(FrontProxy.host)],
                  requiresAuthorization: false, inject: [apiToken] }
              - { name: bytes, path: \(bytes), \(page) }
              - { name: strong, path: \(slow), \(page), \(acr) }
              - { name: billing, methods: [POST], path: \(echo), upstream: billing, \(common) }

            """
    }

    private func running(_ kind: FrontProxy.Kind, _ body: (Site) async throws -> Void) async throws {
        let settings = MockAPISettings.withTwoUsers
        try await MockProvider.withServer { provider in
            try await MockAPI.withServer(settings) { mock in
                try await SessionStoreFixture.with(.sqlite) { sessions in
                    let ports = FrontProxy.Ports(
                        accounts: try FreePort.next(), decisions: try FreePort.next(),
                        api: try require(URL(string: mock.baseURL)?.port))
                    let yaml = Self.yaml(kind, ports, issuer: provider.issuer, token: settings.apiToken)
                    try await GatewayProcess.running(yaml: yaml, set: sessions.settings()) { _ in
                        try await FrontProxy.running(kind, ports) { proxy in
                            try await body(
                                Site(proxy: proxy, mock: mock, provider: provider, sessions: sessions))
                        }
                    }
                }
            }
        }
    }

    @Test(
        "A provider's user signs in, gets exchanged and refreshed tokens, steps up and signs out, behind each proxy",
        arguments: FrontProxy.Kind.allCases)
    func journey(_ kind: FrontProxy.Kind) async throws {
        try await running(kind) { site in
            // Longer ago than the route `strong` permits.
            site.provider.script { $0.idToken.times = ["auth_time": -900] }
            try await signIn(site)
            try await exchange(site)
            site.provider.script { $0.idToken.times = [:] }
            try await stepUp(site)
            try await refresh(site)
            try await signOut(site)
        }
    }

    /// Expects that a script gets 401, and a page a redirect to a login with a query.
    /// - Returns: The response for the script.
    private func rejected(_ path: String, login query: String, _ site: Site) async throws -> TestResponse {
        let rejected = try await site.send("GET", path)
        expect(rejected.status, equals: 401)
        let redirect = try await site.send("GET", path, FormBrowser.navigation)
        expect(redirect.status, equals: 303)
        let location = redirect.values(of: "Location").first ?? ""
        expect(location.hasPrefix("http://\(FrontProxy.host)/auth/login?\(query)"), "\(location)")
        return rejected
    }

    private func signIn(_ site: Site) async throws {
        _ = try await rejected(Self.page, login: "returnTo=", site)
        expect(empty: site.received("Host", Self.bytes))
        let page = try await site.visit(Self.page)
        expect(page.status == 200 && page.body.utf8.count == 3, "\(page)")
        expect(site.received("X-Account-Id", Self.bytes), equals: ["jo"])
        expect(site.received("Authorization", Self.bytes).allSatisfy { $0.hasPrefix("Bearer eyJ") })
        let session = try await site.send("GET", "/auth")
        expect(session.status == 200 && session.body.contains("jo@example.com"), "\(session)")
    }

    private func exchange(_ site: Site) async throws {
        for _ in 0..<2 {
            // Without a body: Caddy and Traefik cut off a response that begins before they have sent one.
            let response = try await site.send("POST", Self.echo)
            expect(response.status == 200 && response.body.isEmpty, "\(response)")
        }
        let tokens = site.received("Authorization", Self.echo)
        expect(tokens.count == 2 && Set(tokens).count == 1)
        expect(tokens.allSatisfy { JWTText.payload($0).contains("https://billing.example.com") })
        expect(site.provider.tokenRequests.count { $0.parameters["subject_token"] != nil }, equals: 1)
        // The claims are those for the other upstream.
        expect(site.received("X-Account-Id", Self.echo).allSatisfy { $0.isEmpty })
    }

    private func stepUp(_ site: Site) async throws {
        let rejected = try await rejected(Self.strong, login: "for=strong&returnTo=", site)
        let challenge = rejected.values(of: "WWW-Authenticate").joined()
        for part in ["insufficient_user_authentication", #"acr_values="urn:example:mfa""#, "max_age"] {
            expect(challenge.contains(part), "\(challenge)")
        }
        expect(empty: site.received("Host", Self.slow))
        let page = try await site.visit(Self.strong)
        expect(page.status == 200 && page.body == "waiting\ndone\n", "\(page)")
        let script = try await site.send("GET", Self.strong)
        expect(script.status, equals: 200)
        expect(site.received("X-Account-Id", Self.slow), equals: ["jo", "jo"])
    }

    private func refresh(_ site: Site) async throws {
        let before = try await site.send("GET", Self.page)
        expect(before.status, equals: 200)
        let old = try require(site.received("Authorization", Self.bytes).last)
        try await site.sessions.expireTokens(of: try require(site.ticket))
        // The gateway notices the change of another process soon.
        try await eventually("the API gets another token") {
            let response = try await site.send("GET", Self.page)
            expect(response.status, equals: 200, "\(response)")
            return site.received("Authorization", Self.bytes).last != old
        }
        let refreshes = site.provider.tokenRequests.filter { $0.parameters["grant_type"] == "refresh_token" }
        expect(refreshes.count, equals: 1)
        expect(site.provider.observations.snapshot().reuseDetections, equals: 0)
        // The next question gets the same token.
        let after = try await site.send("GET", Self.page)
        expect(after.status, equals: 200)
        expect(Set(site.received("Authorization", Self.bytes).suffix(2)).count, equals: 1)
    }

    private func signOut(_ site: Site) async throws {
        let thief = site.browser.copy()
        let count = site.received("Host", Self.bytes).count
        let response = try await site.send("DELETE", "/auth")
        expect(response.status, equals: 200, "\(response)")
        expect(site.ticket, equals: nil)
        for browser in [site.browser, thief] {
            let script = try await site.send("GET", Self.page, as: browser)
            expect(script.status, equals: 401, "\(script)")
            let page = try await site.send("GET", Self.page, FormBrowser.navigation, as: browser)
            expect(page.status, equals: 303, "\(page)")
        }
        expect(site.received("Host", Self.bytes).count, equals: count)
    }
}

extension SessionStoreFixture {
    private struct NotChanged: Error {
        let what: String
    }

    /// Replaces the tokens of a session as another gateway at the same SQLite file would, by ones of an hour ago whose access
    /// token has expired.
    fileprivate func expireTokens(of cookie: String) async throws {
        let configuration = SessionConfiguration(
            store: .sqlite, secrets: [Secret(Self.secret)],
            sqlite: SQLiteConfiguration(path: directory.path(of: "sessions.sqlite")))
        @Sendable func now() -> SessionTime {
            SessionTime(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
        }
        let store = try SessionStoreFactory.make(
            configuration, group: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, clock: { now() }
        ).store
        let running = Task { await store.run() }
        try await stopping {
            running.cancel()
            await running.value
        } after: {
            try await eventually("the store is open") { store.isAvailable }
            let bytes = Array(cookie.utf8)
            guard let ticket = SessionTicket(cookieValue: bytes.span),
                case .active(let session) = try await store.load(ticket, now: now()),
                case .acquired(let lease) = try await store.lease(session.key, for: .seconds(5), now: now())
            else { throw NotChanged(what: "the session cannot be leased") }
            var tokens = session.tokens
            tokens.issuedAt = now().wallTime - .seconds(3_600)
            tokens.accessTokenExpiresAt = now().wallTime - .seconds(1)
            let saved = try await store.save(
                SessionUpdate(tokens: tokens), ticket: ticket, over: session, under: lease, now: now())
            await store.release(lease, of: session.key)
            guard case .saved = saved else { throw NotChanged(what: "\(saved)") }
        }
    }
}
