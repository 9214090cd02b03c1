/// A listening provider.
public struct RunningMockProvider: Sendable {
    /// The provider itself.
    public let provider: MockProvider
    /// The port it is bound to.
    public let port: Int

    /// The address, without a trailing slash: `http://127.0.0.1:49152`.
    public var address: String { "http://\(provider.settings.host):\(port)" }
    /// The issuer: the address, unless the settings have another one.
    public var issuer: String { settings.issuer ?? address }
    /// The settings.
    public var settings: MockProviderSettings { provider.settings }
    /// The recorded traffic.
    public var observations: RequestRecorder { provider.observations }
    /// The sign-ins so far.
    public var logins: [ProviderLogin] { provider.state.logins }
    /// The authenticated requests to the token, pushed request and revocation endpoints so far.
    public var tokenRequests: [ProviderTokenRequest] { provider.state.tokenRequests }
    /// All codes and tokens so far, for tests that search for them where they must not appear.
    public var issuedSecrets: [String] { provider.state.issued }

    /// Changes the behaviour of further requests.
    public func script(_ change: (inout ProviderScript) -> Void) {
        provider.state.update(change)
    }

    /// Replaces the signing key. Further tokens have a new `kid`.
    ///
    /// - Parameter keepsOld: Whether the old keys remain published.
    /// - Throws: An error of the cryptographic library.
    public func rotateKeys(keepsOld: Bool = true) throws {
        try provider.state.rotateKeys(keepsOld: keepsOld)
    }

    /// A logout token with the scripted changes.
    ///
    /// - Throws: An error of the cryptographic library.
    public func logoutToken(subject: String? = nil, sessionID: String? = nil) throws -> String {
        try provider.state.logoutToken(subject: subject, sessionID: sessionID)
    }
}

extension MockProvider {
    /// Runs a provider on a free port (regardless of the settings) while `body` runs, then stops it.
    ///
    /// - Throws: The error of `body`, or the error that prevented listening.
    public static func withServer<R: Sendable>(
        _ settings: MockProviderSettings = MockProviderSettings(),
        body: (RunningMockProvider) async throws -> R
    ) async throws -> R {
        var settings = settings
        settings.port = 0
        return try await MockProvider(settings: settings).whileServing(body)
    }

    /// Runs this provider while `body` runs, then stops it; its keys, tokens and script are kept.
    ///
    /// - Throws: The error of `body`, or the error that prevented listening.
    public func whileServing<R: Sendable>(_ body: (RunningMockProvider) async throws -> R) async throws -> R {
        try await TemporaryServer.run(serve) { port in
            try await body(RunningMockProvider(provider: self, port: port))
        }
    }
}
