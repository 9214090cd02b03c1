import FoundationEssentials
import Hummingbird
public import Logging
import NIOCore
public import ServiceLifecycle

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// A small video-course API, real enough to put a gateway in front of and to test it, and a page that uses it.
///
/// Tokens, accounts and observations live as long as the value, not as long as one `run()`.
public struct MockAPI: Service {
    /// How it behaves.
    public let settings: MockAPISettings
    /// What it has seen.
    public let observations: RequestRecorder
    /// How it misbehaves, changeable while it runs.
    public let faults: MockFaults

    private let logger: Logger
    private let onListening: @Sendable (Int) async -> Void
    private let accounts: AccountStore
    private let accessTokens: AccessTokens
    private let refreshTokens: RefreshTokens

    /// A mock that does not listen yet. `onListening` is called with the bound port once it does.
    public init(
        settings: MockAPISettings = MockAPISettings(),
        logger: Logger,
        onListening: @escaping @Sendable (Int) async -> Void = { _ in }
    ) {
        self.settings = settings
        self.logger = logger
        self.onListening = onListening
        observations = RequestRecorder()
        faults = MockFaults(
            latency: settings.latency, errorRate: settings.errorRate, errorSeed: settings.errorSeed)
        accounts = AccountStore(settings.users)
        accessTokens = AccessTokens(key: settings.signingKey, lifetime: settings.accessTokenLifetime)
        refreshTokens = RefreshTokens(lifetime: settings.refreshTokenLifetime)
    }

    /// Serves until the task is cancelled or a graceful shutdown is asked for.
    ///
    /// - Throws: `MockAPIError.portOutOfRange`, or `MockAPIError.cannotListen` when the address cannot be bound.
    public func run() async throws {
        try await serve(onListening)
    }

    /// Serves; `onListening` is called with the bound port.
    func serve(_ onListening: @escaping @Sendable (Int) async -> Void) async throws {
        guard (0...65_535).contains(settings.port) else { throw MockAPIError.portOutOfRange(settings.port) }
        let application = Application(
            router: try router(),
            configuration: ApplicationConfiguration(address: .hostname(settings.host, port: settings.port)),
            onServerRunning: { channel in
                if let port = channel.localAddress?.port { await onListening(port) }
            },
            logger: logger)
        do {
            try await application.run()
        } catch let error as IOError {
            let reason = String(cString: strerror(error.errnoCode))
            throw MockAPIError.cannotListen("\(settings.host):\(settings.port): \(reason)")
        }
    }

    /// From now on answers 401 to every access token issued so far, whatever its `exp` says. Refresh tokens stay good.
    public func rejectIssuedAccessTokens() {
        accessTokens.rejectAllIssued()
    }

    /// Gives the user with that e-mail another name; false when there is no such user.
    @discardableResult
    public func renameUser(email: String, to name: String) -> Bool {
        accounts.rename(email: email, to: name)
    }

    private func router() throws -> Router<BasicRequestContext> {
        let router = Router(context: BasicRequestContext.self)
        let control = ObservationEndpoint(isExposed: settings.exposeObservations)
        // The order is the rule: seen first, then slow, then 403 whatever the path, and only then failures and routes.
        router.add(middleware: RecordingMiddleware(observations: observations, control: control))
        router.add(middleware: LatencyMiddleware(faults: faults, control: control))
        router.add(middleware: APITokenMiddleware(apiToken: settings.apiToken))
        router.add(middleware: FailureMiddleware(faults: faults, control: control))

        AuthRoutes(
            accounts: accounts, accessTokens: accessTokens, refreshTokens: refreshTokens,
            observations: observations, now: settings.now
        ).register(on: router)
        let bearer = BearerAuthenticator(accounts: accounts, accessTokens: accessTokens, now: settings.now)
        try ContentRoutes(bearer: bearer).register(on: router)
        MediaRoutes(bearer: bearer).register(on: router)
        PageRoutes().register(on: router)
        if settings.exposeObservations {
            ObservationRoutes(observations: observations).register(on: router)
            TestRoutes().register(on: router)
        }
        return router
    }
}

/// Why a mock could not serve.
public enum MockAPIError: Error, Equatable, CustomStringConvertible {
    /// The port is not in 0...65535.
    case portOutOfRange(Int)
    /// The address cannot be bound; which one, and what the system says.
    case cannotListen(String)
    /// It ended before it listened.
    case exitedBeforeListening

    /// One line for a terminal.
    public var description: String {
        switch self {
        case .portOutOfRange(let port): "\(port) is no port (choose one from 0 to 65535)"
        case .cannotListen(let why): "the mock API cannot listen on \(why) (choose a free port, or 0)"
        case .exitedBeforeListening: "the mock API ended before it listened"
        }
    }
}
