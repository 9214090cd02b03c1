import NIOHTTP1
public import ServiceLifecycle

/// A small video-course API for demonstrating and testing a gateway, with a web page that uses it.
///
/// Tokens, accounts and observations persist across several calls of `run()`.
///
/// Module `MockAPI`: an upstream for the demo and the tests; the gateway does not contain it.
public struct MockAPI: Service {
    /// The settings.
    public let settings: MockAPISettings
    /// The recorded traffic.
    public let observations = RequestRecorder()
    /// The injected faults; can be changed while the mock runs.
    public let faults = MockFaults()

    private let onListening: @Sendable (Int) async -> Void
    private let issuer: TokenIssuer

    /// Creates a mock that does not listen yet. `onListening` is called with the bound port.
    public init(
        settings: MockAPISettings = .demo, onListening: @escaping @Sendable (Int) async -> Void = { _ in }
    ) {
        self.settings = settings
        self.onListening = onListening
        issuer = TokenIssuer(settings, observations: observations)
    }

    /// Serves until the task is cancelled or a graceful shutdown begins.
    ///
    /// - Throws: `MockAPIError.portOutOfRange`, or `MockAPIError.cannotListen` if the address cannot be bound.
    public func run() async throws {
        try await serve(onListening)
    }

    /// Serves; `onListening` is called with the bound port.
    func serve(_ onListening: @Sendable (Int) async -> Void) async throws {
        let routes = try routes()
        let expected = SecretFingerprint(of: settings.apiToken)
        try await MockServer.run(on: settings.host, settings.port, onListening) { request in
            // The order matters: recording, latency, 403 for any path without API token, then failures and routes.
            let isControl = settings.exposeObservations && request.path == RequestRecorder.path
            if !isControl {
                observations.record(RecordedRequest(request))
                let latency = faults.latency
                if latency > .zero { try await Task.sleep(for: latency) }
            }
            // Two fields are rejected even if both are correct: a proxy must set this field, not add one.
            let presented = request.fields["X-API-TOKEN"]
            guard presented.count == 1, SecretFingerprint(of: presented[0]) == expected else {
                return .error(.forbidden, "The X-API-TOKEN header is missing or wrong.")
            }
            if !isControl, let status = faults.nextFailure(method: request.method.rawValue, path: request.path) {
                return .error(HTTPResponseStatus(statusCode: status), "This failure was injected by the mock.")
            }
            return try await request.response(from: routes, servesHead: true)
        }
    }

    /// Rejects every access token issued so far with 401, regardless of its `exp`. Refresh tokens stay valid.
    public func rejectIssuedAccessTokens() {
        issuer.accessTokens.rejectAllIssued()
    }

    /// Renames the user with this e-mail address; returns false if there is no such user.
    @discardableResult
    public func renameUser(email: String, to name: String) -> Bool {
        issuer.accounts.rename(email: email, to: name)
    }

    private func routes() throws -> [RouteTable] {
        let bearer = BearerAuthenticator(issuer: issuer, userField: settings.userField)
        let client = MockClient(id: settings.clientID, secret: settings.clientSecret)
        return [
            AuthRoutes(issuer: issuer).routes,
            TokenEndpointRoutes(issuer: issuer, client: client, lifetime: settings.accessTokenLifetime).routes,
            try ContentRoutes(bearer: bearer).routes(), MediaRoutes(bearer: bearer).routes,
            PageRoutes(identities: settings.identities).routes,
        ] + (settings.exposeObservations ? [observations.routes, TestRoutes.routes] : [])
    }
}

/// The error of a mock that cannot serve.
public enum MockAPIError: Error, Equatable, CustomStringConvertible {
    /// The port is not in 0...65535.
    case portOutOfRange(Int)
    /// The address cannot be bound: the address and the system error.
    case cannotListen(String)
    case exitedBeforeListening

    /// A one-line message for a terminal.
    public var description: String {
        switch self {
        case .portOutOfRange(let port): "\(port) is not a port (choose one from 0 to 65535)"
        case .cannotListen(let why): "the mock API cannot listen on \(why) (choose a free port, or 0)"
        case .exitedBeforeListening: "the mock API exited before it listened"
        }
    }
}
