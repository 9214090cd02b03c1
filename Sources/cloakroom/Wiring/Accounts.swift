import CloakroomCore
import CloakroomIdentity
import CloakroomProxy
import CloakroomTLS
import CloakroomTelemetry
import NIOCore
import NIOPosix
import ServiceLifecycle
import Synchronization
import Tracing

/// What signs people in and renews their tokens under one configuration. Another configuration brings another one, and
/// this one goes on for as long as requests are under way with it.
struct IdentityComponents: Sendable, Unprintable {
    let accountEndpoints: any AccountEndpointHandler
    let refresher: any TokenRefreshing
    /// Whose tokens are dealt in; `nil` where nobody signs in.
    let source: SessionSource?
    private let parts: SharedComponents?
    private let ended = AsyncStream.makeStream(of: Never.self)
    /// How long revocations may hold up the end: one call that is not answered.
    private static let revocationBound = Duration.seconds(2)
    /// How long revocations may go on after a reload, when there is no hurry.
    private static let reloadRevocationBound = Duration.seconds(60)

    private struct SharedComponents {
        let client: UpstreamTokenClient
        let refresher: TokenRefresher
        let revocations: TokenRevocations
    }

    /// - Parameter targets: Those of each upstream of the plan, which requests use too.
    /// - Throws: ``UpstreamTLSError`` if a file for TLS with the upstream is of no use.
    init(
        _ configuration: GatewayConfiguration, targets: [UpstreamTargets], sessions: SessionStoreSetup,
        observer: AccountEventRecorder,
        leaseClock: SessionClock,
        tracer: (any Tracer)?
    ) throws {
        source = configuration.sessionSource
        guard let source, let index = configuration.accounts.upstream else {
            accountEndpoints = DisabledAccountEndpoints()
            refresher = DisabledTokenRefresher()
            parts = nil
            return
        }
        let upstream = configuration.upstreams[index]
        let client = UpstreamTokenClient(
            upstream, targets: targets[index], timeouts: configuration.timeouts,
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            tls: try UpstreamTLS.configuration(upstream.tls), tracer: tracer,
            onInvalidLifetime: { [name = upstream.name] in observer.audit.tokenLifetimeInvalid(upstream: name) })
        let sessionRefresher = TokenRefresher(
            store: sessions.store, client: client, observer: observer, supportsRefresh: client.supportsRefresh,
            source: source,
            limits: RefreshTimeouts(configuration.timeouts), clock: { .now }, leaseClock: { leaseClock.now },
            tracer: tracer)
        let revocations = TokenRevocations(client: client, observer: observer, source: source)
        accountEndpoints = AccountController(
            store: sessions.store, client: client, observer: observer, session: configuration.session,
            accounts: configuration.accounts,
            accounts: sessions.accounts, source: source, revocations: revocations, tracer: tracer)
        refresher = sessionRefresher
        parts = SharedComponents(client: client, refresher: sessionRefresher, revocations: revocations)
    }

    /// Has the tokens of ended sessions revoked upstream in the background.
    func revoke(_ ended: [EndedSession]) -> AccountEvent.EndedTokens {
        parts?.revocations.revoke(ended) ?? .notRevokedSourceRemoved
    }

    /// Nobody asks it any more.
    func end() {
        ended.continuation.finish()
    }

    /// Goes on until ``end()``, or until its task is cancelled; then waits for renewals that are under way: a refresh
    /// token that was spent and whose successor was not kept would be a session lost.
    func run() async {
        await withTaskGroup(of: Void.self) { group in
            if let refresher = parts?.refresher { group.addTask { await refresher.run() } }
            group.addTask { for await _ in ended.stream {} }
            await group.next()
            group.cancelAll()
        }
        // After a reload those that wait get their turn. A stop of the process, which cancels this, ends that.
        await parts?.revocations.drain(within: Self.reloadRevocationBound)
        await parts?.revocations.finish(within: Self.revocationBound)
        await shutdown()
    }

    /// Closes the connections for sign-ins. For what was never put to use, too.
    func shutdown() async {
        await parts?.client.shutdown()
    }
}

/// Runs the accounts of the configuration in effect, and of those before it for as long as they are needed.
final class IdentityService: Service, Unprintable {
    private let arrivals = AsyncStream.makeStream(of: Void.self)
    /// Those that were taken over and do not run yet.
    private let waiting = Mutex<[IdentityComponents]>([])

    /// Takes over another one.
    func add(_ accounts: IdentityComponents) {
        waiting.withLock { $0.append(accounts) }
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
        // A stop that came before they ran.
        for accounts in takeWaiting() { await accounts.shutdown() }
    }

    private func takeWaiting() -> [IdentityComponents] {
        waiting.withLock { waiting in
            defer { waiting = [] }
            return waiting
        }
    }
}
