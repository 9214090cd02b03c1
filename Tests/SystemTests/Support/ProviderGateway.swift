import Foundation
import TestSupport
import Testing

@testable import MockAPI
@testable import cloakroom

/// A gateway process whose users sign in at an OpenID Provider. Its upstream is the mock API.
struct ProviderGateway {
    /// The configuration.
    struct Settings {
        var issuer: String
        /// Values of `client` of the identity.
        var client = "id: cloakroom, secret: cloakroom-client-secret"
        /// Further members of the identity, one a line.
        var identity: [String] = []
        /// The context class that the route `strong` requires.
        var contextClass = "urn:example:mfa"
        /// Further identities, as lines below `identities`.
        var others: [String] = []
        /// The address of a WebSocket server, which gets the route `/chat`; `nil` for no such route.
        var chat: String?
        /// Overrides of the configuration, as `key=value`.
        var overrides: [String] = []

        fileprivate func yaml(port: Int, upstream: String) -> String {
            """
            listeners:
              - address: 127.0.0.1:\(port)
            admin: { address: "127.0.0.1:0", token: \(ProviderGateway.adminToken) }
            identities:
              company:
                issuer: \(issuer)
                client: { \(client) }
                tokensFor: [api]
                \(identity.joined(separator: "\n    "))
            \(others.map { "  " + $0 }.joined(separator: "\n"))
            accounts: { publicURL: "http://127.0.0.1:\(port)", login: { returnTo: /episodes } }
            upstreams:
              api:
                targets: ["\(upstream)"]
                apiToken: { value: demo-api-token }
                claimHeaders: { X-User-Mail: email, X-User-Groups: { claim: groups, join: "," } }
              billing:
                targets: ["\(upstream)"]
                apiToken: { value: demo-api-token }
            \(chat.map { "  chat: { targets: [\"\($0)\"] }" } ?? "")
            session:
              cookie: { secure: false }
            routes:
              - { name: episodes, methods: [GET], path: /episodes, upstream: api, requiresAuthorization: false,
                  inject: [apiToken] }
              - { name: bytes, methods: [GET], path: /__mock/bytes, upstream: api, requiresAuthorization: true,
                  inject: [apiToken, bearer] }
              - { name: strong, methods: [GET], path: /__mock/slow, upstream: api, requiresAuthorization: true,
                  inject: [apiToken, bearer], require: { acr: ["\(contextClass)"] } }
              - { name: billing, methods: [POST], path: /__mock/echo, upstream: billing, requiresAuthorization: true,
                  inject: [apiToken\(exchanges ? ", bearer" : "")] }
            \(chat == nil ? "" : Self.chatRoute)
            """
        }

        private static let chatRoute =
            "  - { name: chat, methods: [GET], path: /chat, upstream: chat, requiresAuthorization: true, websocket: true }"

        private var exchanges: Bool { identity.contains { $0.hasPrefix("exchange:") } }
    }

    let gateway: GatewayProcess
    let mock: RunningMockAPI

    var base: String { gateway.clear }

    fileprivate static let adminToken = "A-token-of-the-admin-listener-1234567"

    /// Explains a rejected request as `cloakroom why` does.
    func why(_ response: TestResponse) async throws -> RejectionReport {
        try await gateway.why(response, token: Self.adminToken)
    }

    /// Serves while `body` runs.
    /// - Parameters:
    ///   - port: The port of the gateway; the provider knows it as that of the client.
    static func running<R: Sendable>(
        _ settings: Settings, port: Int, body: (ProviderGateway) async throws -> R
    ) async throws -> R {
        var mockSettings = MockAPISettings()
        mockSettings.exposeObservations = true
        return try await MockAPI.withServer(mockSettings) { mock in
            let yaml = settings.yaml(port: port, upstream: mock.baseURL)
            return try await GatewayProcess.running(yaml: yaml, set: settings.overrides) { process in
                try await body(ProviderGateway(gateway: process, mock: mock))
            }
        }
    }

    /// The time that a scripted provider has for a response: a test of one that does not respond waits this long, and one
    /// that responds needs much less, even on a busy machine.
    static let providerLimit = Duration.seconds(6)

    /// Serves with a scripted provider while `body` runs. Sign-ins are not throttled, and the provider has
    /// ``providerLimit`` for a response.
    /// - Parameters:
    ///   - change: Changes the configuration of the gateway.
    ///   - prepare: Changes the provider before the gateway starts.
    static func withProvider(
        _ settings: MockProviderSettings = MockProviderSettings(), change: (inout Settings) -> Void = { _ in },
        prepare: (MockProvider) throws -> Void = { _ in },
        body: (ProviderGateway, MockProvider) async throws -> Void
    ) async throws {
        try await MockProvider.withServer(settings) { provider in
            try prepare(provider)
            var settings = Settings(issuer: provider.issuer)
            settings.overrides = ["accounts.throttle=false", "timeouts.identity=\(providerLimit.components.seconds)s"]
            change(&settings)
            let port = try FreePort.next()
            try await running(settings, port: port) { site in try await body(site, provider) }
        }
    }

    /// Begins a login. The gateway fetches the documents of the provider in the background; until then, logins are 503.
    /// - Parameter query: Parameters of the login, such as `returnTo=/episodes`.
    /// - Returns: The authorization request, which was not sent.
    func beginLogin(_ browser: FormBrowser, _ query: String = "") async throws -> FormBrowser.Page {
        let url = base + "/auth/login" + (query.isEmpty ? "" : "?" + query)
        return try await eventually("the provider is known") {
            let response = try await browser.send("GET", url, FormBrowser.navigation)
            if response.status == 503 { return nil }
            guard response.status == 303, let location = response.values(of: "Location").first else {
                return FormBrowser.Page(url: url, response: response)
            }
            return FormBrowser.Page(url: location, response: nil)
        }
    }

    /// A browser with a session.
    func signedIn() async throws -> FormBrowser {
        let browser = FormBrowser()
        _ = try await browser.visit(try await beginLogin(browser).url)
        try await expect(session(browser).status, equals: 200)
        return browser
    }

    /// Requests the session document as a page's script does.
    func session(_ browser: FormBrowser) async throws -> TestResponse {
        try await browser.send("GET", base + "/auth")
    }

    /// The user in the session document.
    func user(_ browser: FormBrowser) async throws -> ProviderUser {
        try await session(browser).json(as: ProviderSessionDocument.self).user
    }

    /// Requests the route `bytes`, whose upstream gets the access token.
    func bytes(_ browser: FormBrowser) async throws -> TestResponse {
        try await browser.send("GET", base + "/__mock/bytes?count=3")
    }

    /// The values of a field of all requests to the upstream with this path, oldest first.
    func received(_ field: String, path: String = "/__mock/bytes") -> [String] {
        mock.observations.snapshot().recent.filter { $0.path == path }.flatMap { $0.values(of: field) }
    }
}

/// The body of `GET /auth` for a user of a provider.
struct ProviderSessionDocument: Decodable {
    let user: ProviderUser
}

/// The kept claims of a user.
struct ProviderUser: Decodable, Equatable {
    var email: String?
    var name: String?
    var groups: [String]?
    var sid: String?
}
