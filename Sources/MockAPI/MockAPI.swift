import FoundationEssentials
import HTTPTypes
import Hummingbird
public import Logging
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

    private let logger: Logger
    private let onListening: @Sendable (Int) async -> Void
    private let issuer: TokenIssuer

    /// Creates a mock that does not listen yet. `onListening` is called with the bound port.
    public init(
        settings: MockAPISettings = .demo,
        logger: Logger,
        onListening: @escaping @Sendable (Int) async -> Void = { _ in }
    ) {
        self.settings = settings
        self.logger = logger
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
    func serve(_ onListening: @escaping @Sendable (Int) async -> Void) async throws {
        try await MockServer.run(try router(), on: settings.host, settings.port, logger: logger, onListening)
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

    private func router() throws -> Router<BasicRequestContext> {
        let router = Router(context: BasicRequestContext.self, options: .autoGenerateHeadEndpoints)
        let control = ObservationEndpoint(isExposed: settings.exposeObservations)
        // The order matters: recording, latency, 403 for any path without API token, then failures and routes.
        router.add(middleware: RecordingMiddleware(observations: observations, control: control))
        router.add(middleware: LatencyMiddleware(faults: faults, control: control))
        router.add(middleware: APITokenMiddleware(apiToken: settings.apiToken))
        router.add(middleware: FailureMiddleware(faults: faults, control: control))

        AuthRoutes(issuer: issuer).register(on: router)
        TokenEndpointRoutes(
            issuer: issuer, client: MockClient(id: settings.clientID, secret: settings.clientSecret),
            lifetime: settings.accessTokenLifetime
        ).register(on: router)
        let bearer = BearerAuthenticator(
            issuer: issuer, userField: settings.userField.flatMap { HTTPField.Name($0) })
        try ContentRoutes(bearer: bearer).register(on: router)
        MediaRoutes(bearer: bearer).register(on: router)
        PageRoutes(identities: settings.identities).register(on: router)
        if settings.exposeObservations {
            ObservationRoutes(observations: observations).register(on: router)
            TestRoutes().register(on: router)
        }
        return router
    }
}

/// The error of a mock that cannot serve.
public enum MockAPIError: Error, Equatable, CustomStringConvertible {
    /// The port is not in 0...65535.
    case portOutOfRange(Int)
    /// The address cannot be bound: the address and the system error.
    case cannotListen(String)
    /// The mock exited before it listened.
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
