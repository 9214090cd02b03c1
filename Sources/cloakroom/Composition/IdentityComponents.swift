import CloakroomCore
import CloakroomIdentity
import CloakroomProxy
import CloakroomSessions
import CloakroomTLS
import CloakroomTelemetry
import NIOCore
import NIOPosix
import ServiceLifecycle
import Synchronization
import Tracing

/// The components that perform sign-ins and token refreshes under one configuration. A reload creates a new instance;
/// the old one keeps running until its last request has completed.
struct IdentityComponents: Sendable, Unprintable {
    let accountEndpoints: any AccountEndpointHandler
    let refresher: any TokenRefreshing
    let exchanger: any TokenExchanging
    /// `nil` if no identity accepts access tokens of clients, and no route names and passwords.
    let tokens: VerifiedTokens?
    /// The source of the sessions that users sign in to with credentials; `nil` if the configuration has no such upstream.
    let source: SessionSource?
    /// The kind of the names that users sign in with.
    let nameKind: AccountNameKind
    private let parts: SharedComponents?
    private let ended = AsyncStream.makeStream(of: Never.self)
    /// How long revocations may delay the end of ``run()``: the duration of one call without a response.
    private static let revocationBound = Duration.seconds(2)
    /// How long pending revocations may continue after a reload.
    private static let reloadRevocationBound = Duration.seconds(60)

    private struct SharedComponents {
        let client: UpstreamTokenClient?
        let providers: [RunningProvider]
        let refresher: TokenRefresher
        let revocations: TokenRevocations
    }

    /// A provider and what is recorded about it.
    private struct RunningProvider {
        let provider: OpenIDProvider
        let monitor: ProviderMonitor
    }

    /// - Parameters:
    ///   - targets: The targets of each upstream in the configuration, shared with proxied requests.
    ///   - counts: What is counted of clients, in the process.
    ///   - previous: The components of the previous configuration, whose metadata and keys of providers remain in use
    ///     until they are fetched again.
    /// - Throws: ``UpstreamTLSError`` if a file for TLS with the upstream is invalid; ``ConfigFindingError`` if the key
    ///   file of an identity is.
    init(
        _ configuration: GatewayConfiguration, targets: [UpstreamTargets], sessions: SessionStoreSetup,
        observer: AccountEventRecorder, sessionClock: SessionClock, tracer: (any Tracer)?, counts: ClientCounts,
        previous: IdentityComponents? = nil
    ) throws {
        source = configuration.sessionSource
        nameKind = configuration.accounts.name.kind
        guard configuration.accounts.isEnabled else {
            accountEndpoints = DisabledAccountEndpoints()
            refresher = DisabledTokenRefresher()
            exchanger = NoTokenExchange()
            tokens = nil
            parts = nil
            return
        }
        let providers = try Self.providers(
            configuration, previous: previous?.parts?.providers ?? [], observer: observer, tracer: tracer)
        let client = try Self.signInClient(configuration, targets: targets, observer: observer, tracer: tracer)
        let clients = TokenClients(
            signIn: client.flatMap { client in configuration.sessionSource.map { ($0, client) } },
            others: Dictionary(providers.map { ($0.provider.source, $0.provider) }) { first, _ in first })
        // Follows the wall clock forwards: a process that was suspended must not act on a lease that has expired.
        let leaseClock = SessionClock()
        let sessionRefresher = TokenRefresher(
            store: sessions.store, clients: clients, observer: observer,
            limits: RefreshTimeouts(configuration.timeouts), clock: { .now },
            sessionClock: { sessionClock.now },
            leaseClock: { MonotonicTime(milliseconds: leaseClock.now.milliseconds) }, tracer: tracer,
            executor: { EventLoopExecutor.current }, sleep: { try await EventLoopExecutor.sleep(for: $0) })
        let revocations = TokenRevocations(clients: clients, observer: observer)
        let routes = RouteTable(configuration)
        let assertions = configuration.upstreams.count { $0.assertion != nil }
        let keys = assertions > 0 ? sessions.assertions?.keySet : nil
        /// - Parameter site: The configuration as it applies to the site.
        func endpoints(_ site: GatewayConfiguration, name: String = "", tag: SiteTag = .main) -> AccountController {
            let names = site.providers.map(\.name)
            let own = names.compactMap { name in providers.first { $0.provider.configuration.name == name }?.provider }
            let ownClients = TokenClients(
                signIn: client.flatMap { client in site.sessionSource.map { ($0, client) } },
                others: Dictionary(own.map { ($0.source, $0) }) { first, _ in first })
            return AccountController(
                store: sessions.store, clients: ownClients, observer: observer, session: site.session,
                accounts: site.accounts, accounts: sessions.accounts, revocations: revocations,
                logins: ProviderLogins(own, site, routes: routes, sealing: sessions.cookies, site: name),
                page: SignInPage(site, routes: routes), keys: keys, site: tag, revoking: clients,
                devices: sessions.devices, refreshTimeouts: RefreshTimeouts(configuration.timeouts),
                undecided: counts.undecided, tracer: tracer)
        }
        let sites = (0..<max(1, configuration.sites.count)).map { configuration.site($0) }
        let controllers = sites.enumerated().map { index, own in
            guard configuration.sites.indices.contains(index) else { return endpoints(own) }
            return endpoints(own, name: configuration.sites[index].name, tag: configuration.sites[index].tag)
        }
        accountEndpoints =
            configuration.sites.isEmpty
            ? controllers[0] : SiteEndpoints(zip(sites, controllers).map { ($0.accounts, $1) })
        let basic =
            configuration.routes.contains { $0.credentials.contains(.basic) }
            ? BasicSignIns(
                controllers, configuration.accounts.basic, counts: counts, previous: previous?.tokens?.basic,
                clock: { .now }, sessionClock: { sessionClock.now }) : nil
        tokens =
            basic == nil && providers.allSatisfy { $0.provider.configuration.accessTokens == nil }
            ? nil
            : VerifiedTokens(
                sites.map { site in
                    let sources = site.providers.map(\.source)
                    return providers.map(\.provider).filter { sources.contains($0.source) }
                }, origins: sites.map { $0.accounts.publicURL.flatMap { WebOrigin($0) } }, proofs: sessions.proofs,
                assertions: assertions, counts: counts, basic: basic, clock: { .now })
        refresher = sessionRefresher
        var exchangeObserver = observer
        exchangeObserver.upstreams = configuration.upstreams.map(\.name)
        exchanger = ExchangedTokens(
            providers: providers.map(\.provider), refresher: sessionRefresher, observer: exchangeObserver,
            clock: { .now })
        parts = SharedComponents(
            client: client, providers: providers, refresher: sessionRefresher, revocations: revocations)
    }

    /// The client of the upstream that signs users in; `nil` if there is none.
    private static func signInClient(
        _ configuration: GatewayConfiguration, targets: [UpstreamTargets], observer: AccountEventRecorder,
        tracer: (any Tracer)?
    ) throws -> UpstreamTokenClient? {
        guard let index = configuration.accounts.upstream else { return nil }
        let upstream = configuration.upstreams[index]
        return UpstreamTokenClient(
            upstream, targets: targets[index], timeouts: configuration.timeouts,
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            tls: try UpstreamTLS.configuration(upstream.tls), tracer: tracer, calls: observer.calls,
            onInvalidLifetime: { [name = upstream.name] in observer.audit.tokenLifetimeInvalid(upstream: name) })
    }

    /// The providers that users may sign in with, the default first.
    private static func providers(
        _ configuration: GatewayConfiguration, previous: [RunningProvider], observer: AccountEventRecorder,
        tracer: (any Tracer)?
    ) throws -> [RunningProvider] {
        try configuration.providers.map { identity in
            let monitor = ProviderMonitor(
                identity, metrics: observer.metrics.identities[identity.name], audit: observer.audit, now: { .now })
            let provider = try OpenIDProvider(
                identity, previous: previous.first { $0.provider.configuration.name == identity.name }?.provider,
                timeouts: configuration.timeouts,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton, tracer: tracer, calls: observer.calls,
                clock: { .now }
            ) { monitor.record($0) }
            return RunningProvider(provider: provider, monitor: monitor)
        }
    }

    /// The state of the providers, in the order of `accounts.identities`.
    var identityStatus: [IdentityStatus] { parts?.providers.map(\.monitor.status) ?? [] }

    /// Revokes the tokens of ended sessions at the upstream, in the background.
    func revoke(_ ended: [EndedSession]) -> AccountEvent.EndedTokens {
        parts?.revocations.revoke(ended) ?? .notRevokedSourceRemoved
    }

    /// Ends ``run()``. To be called when no request uses this instance any more.
    func end() {
        ended.continuation.finish()
    }

    /// Runs until ``end()`` is called or the task is cancelled, then waits for token refreshes in progress: a session
    /// is lost if its refresh token was used and the new one was not saved.
    func run() async {
        await withTaskGroup(of: Void.self) { group in
            if let parts {
                group.addTask { await parts.refresher.run() }
                for running in parts.providers {
                    group.addTask { await running.provider.run() }
                    group.addTask { await running.monitor.run(running.provider) }
                }
            }
            // Ends on cancellation too.
            for await _ in ended.stream {}
            group.cancelAll()
        }
        // After a reload, pending revocations are still sent. Shutdown of the process cancels this task and thereby
        // this wait.
        await parts?.revocations.drain(within: Self.reloadRevocationBound)
        await parts?.revocations.finish(within: Self.revocationBound)
        await shutdown()
    }

    /// Closes the connections for sign-ins. Also to be called for an instance that was never applied.
    func shutdown() async {
        await parts?.client?.shutdown()
        for running in parts?.providers ?? [] { await running.provider.shutdown() }
    }
}

/// Runs the components of the current configuration, and those of previous configurations until their last request has
/// completed.
final class IdentityService: Service, Unprintable {
    private struct State {
        var current: IdentityComponents
        /// Instances that do not run yet.
        var waiting: [IdentityComponents]
    }

    private let arrivals = AsyncStream.makeStream(of: Void.self)
    private let state: Mutex<State>

    init(_ first: IdentityComponents) {
        state = Mutex(State(current: first, waiting: [first]))
        arrivals.continuation.yield()
    }

    /// The components of the current configuration.
    var current: IdentityComponents { state.withLock { $0.current } }

    /// Makes an instance the current one, and runs it.
    func replace(with next: IdentityComponents) {
        state.withLock { $0 = State(current: next, waiting: $0.waiting + [next]) }
        arrivals.continuation.yield()
    }

    func run() async throws {
        await withDiscardingTaskGroup { group in
            for await _ in arrivals.stream.cancelOnGracefulShutdown() {
                for accounts in takeWaiting() {
                    group.addTask { await cancelWhenGracefulShutdown { await accounts.run() } }
                }
            }
        }
        // Shutdown began before these instances ran.
        for accounts in takeWaiting() { await accounts.shutdown() }
    }

    private func takeWaiting() -> [IdentityComponents] {
        state.withLock { state in
            defer { state.waiting = [] }
            return state.waiting
        }
    }
}
