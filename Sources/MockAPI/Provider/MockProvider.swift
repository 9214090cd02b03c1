public import FoundationEssentials
public import ServiceLifecycle

/// A scripted OpenID Provider: the code flow of OpenID Connect Core 1.0 with real keys, and every deviation from it that
/// a test requests.
///
/// Unscripted, it signs in the user of ``ProviderScript`` at once, without a page, and behaves as the specifications
/// require: discovery, a key set, PKCE with S256, ID tokens, refresh tokens that rotate with detection of reuse, token
/// exchange (RFC 8693), userinfo, revocation, end_session, pushed authorization requests (RFC 9126), and logout tokens.
///
/// ```swift
/// try await MockProvider.withServer { provider in
///     // Configuration of the gateway: issuer: provider.issuer, client id and secret of provider.settings.
///     provider.script { $0.idToken.claims.set["iss"] = #""https://other.example""# }
///     provider.script { $0.idToken.signature = .publicKeyAsSecret }
///     provider.script { $0.faults[.refresh] = [.error("invalid_grant", count: 1)] }
///     try provider.rotateKeys(keepsOld: false)
///     let token = try provider.logoutToken(sessionID: provider.logins.last?.sessionID)
/// }
/// ```
///
/// Tests in another process, and trials by hand, use `PUT /__mock/script`; see ``ProviderControlRoutes``. To simulate a
/// provider that is killed, call ``whileServing(_:)`` twice on one provider with a fixed port.
///
/// Folder `Provider/`: the OpenID Provider and its script.
public struct MockProvider: Service {
    /// The settings.
    public let settings: MockProviderSettings
    /// The recorded traffic.
    public let observations = RequestRecorder()

    let state: ProviderState
    private let onListening: @Sendable (Int) async -> Void

    /// Creates a provider that does not listen yet. `onListening` is called with the bound port.
    ///
    /// - Throws: An error of the cryptographic library if the key cannot be generated.
    public init(
        settings: MockProviderSettings = MockProviderSettings(),
        onListening: @escaping @Sendable (Int) async -> Void = { _ in }
    ) throws {
        self.settings = settings
        self.onListening = onListening
        state = try ProviderState(settings)
    }

    /// Serves until the task is cancelled or a graceful shutdown begins.
    ///
    /// - Throws: `MockAPIError.portOutOfRange`, or `MockAPIError.cannotListen` if the address cannot be bound.
    public func run() async throws {
        try await serve(onListening)
    }

    /// Serves; `onListening` is called with the bound port.
    func serve(_ onListening: @Sendable (Int) async -> Void) async throws {
        let routes = routes
        let onListening: @Sendable (Int) async -> Void = { port in
            state.listens(on: port)
            await onListening(port)
        }
        try await MockServer.run(on: settings.host, settings.port, onListening) { request in
            if !settings.exposesControl || request.path != RequestRecorder.path {
                observations.record(RecordedRequest(request))
            }
            return try await request.response(from: routes)
        }
    }

    private var routes: [RouteTable] {
        [
            ProviderMetadataRoutes(state: state).routes, AuthorizationRoutes(state: state).routes,
            TokenRoutes(state: state, observations: observations).routes,
        ] + (settings.exposesControl ? [observations.routes, ProviderControlRoutes(provider: self).routes] : [])
    }
}

/// The settings of a ``MockProvider``.
public struct MockProviderSettings: Sendable, Redacted {
    /// The address to listen on and the host of the issuer: `127.0.0.1` or, as another site for browsers, `localhost`.
    public var host = "127.0.0.1"
    /// The issuer of a provider that is known under another address than this one; `nil` for host and port.
    public var issuer: String?
    /// The port to listen on, 0...65535; 0 selects a free port.
    public var port = 0
    /// The client.
    public var clientID = "cloakroom"
    /// The secret of the client, for `client_secret_basic` and `client_secret_post`.
    public var clientSecret = "cloakroom-client-secret"
    /// The redirect URIs of the client; empty for any.
    public var redirectURIs: [String] = []
    /// The algorithm of the first key.
    public var algorithm = ProviderAlgorithm.es256
    /// The lifetime of access tokens, in whole seconds.
    public var accessTokenLifetime = Duration.seconds(300)
    /// The lifetime of a refresh token from its own issue.
    public var refreshTokenLifetime = Duration.seconds(28_800)
    /// Whether the `/__mock/…` paths exist. Only for tests: they hand out and change everything.
    public var exposesControl = false
    /// The behaviour at the start.
    public var script = ProviderScript()
    /// The clock.
    public var now: @Sendable () -> Date = { Date() }

    /// Creates the default settings.
    public init() {}
}
