/// What tests do with a provider that listens.
extension MockProvider {
    /// The port it is bound to.
    public var port: Int { state.port }
    /// The address, without a trailing slash: `http://127.0.0.1:49152`.
    public var address: String { "http://\(settings.host):\(port)" }
    /// The issuer: the address, unless the settings have another one.
    public var issuer: String { state.issuer }
    /// The sign-ins so far.
    public var logins: [ProviderLogin] { state.logins }
    /// The authenticated requests to the token, pushed request and revocation endpoints so far.
    public var tokenRequests: [ProviderTokenRequest] { state.tokenRequests }
    /// All codes and tokens so far, for tests that search for them where they must not appear.
    public var issuedSecrets: [String] { state.issued }

    /// Changes the behaviour of further requests.
    public func script(_ change: (inout ProviderScript) -> Void) { state.update(change) }

    /// Replaces the signing key. Further tokens have a new `kid`.
    ///
    /// - Parameter keepsOld: Whether the old keys remain published.
    /// - Throws: An error of the cryptographic library.
    public func rotateKeys(keepsOld: Bool = true) throws {
        try state.rotateKeys(keepsOld: keepsOld)
    }

    /// A logout token with the scripted changes.
    ///
    /// - Throws: An error of the cryptographic library.
    public func logoutToken(subject: String? = nil, sessionID: String? = nil) throws -> String {
        try state.logoutToken(subject: subject, sessionID: sessionID)
    }

    /// Runs a provider on a free port (regardless of the settings) while `body` runs, then stops it.
    ///
    /// - Throws: The error of `body`, or the error that prevented listening.
    public static func withServer<R: Sendable>(
        _ settings: MockProviderSettings = MockProviderSettings(),
        body: (MockProvider) async throws -> R
    ) async throws -> R {
        var settings = settings
        settings.port = 0
        return try await MockProvider(settings: settings).whileServing(body)
    }

    /// Runs this provider while `body` runs, then stops it; its keys, tokens and script are kept.
    ///
    /// - Throws: The error of `body`, or the error that prevented listening.
    public func whileServing<R: Sendable>(_ body: (MockProvider) async throws -> R) async throws -> R {
        try await TemporaryServer.run(serve) { _ in try await body(self) }
    }
}
