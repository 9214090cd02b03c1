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

/// The components that perform sign-ins and token refreshes under one configuration. A reload creates a new instance;
/// the old one keeps running until its last request has completed.
struct IdentityComponents: Sendable, Unprintable {
    let accountEndpoints: any AccountEndpointHandler
    let refresher: any TokenRefreshing
    /// The source that issues the tokens; `nil` if the configuration has no sign-in.
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
        let client: UpstreamTokenClient
        let refresher: TokenRefresher
        let revocations: TokenRevocations
    }

    /// - Parameter targets: The targets of each upstream in the configuration, shared with proxied requests.
    /// - Throws: ``UpstreamTLSError`` if a file for TLS with the upstream is invalid.
    init(
        _ configuration: GatewayConfiguration, targets: [UpstreamTargets], sessions: SessionStoreSetup,
        observer: AccountEventRecorder,
        leaseClock: SessionClock,
        tracer: (any Tracer)?
    ) throws {
        source = configuration.sessionSource
        nameKind = configuration.accounts.name.kind
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
            if let refresher = parts?.refresher { group.addTask { await refresher.run() } }
            group.addTask { for await _ in ended.stream {} }
            await group.next()
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
        await parts?.client.shutdown()
    }
}

/// Runs the `Accounts` of the current configuration, and those of previous configurations until their last request
/// has completed.
final class IdentityService: Service, Unprintable {
    private let arrivals = AsyncStream.makeStream(of: Void.self)
    /// Instances that were added and do not run yet.
    private let waiting = Mutex<[IdentityComponents]>([])

    /// Adds an instance to run.
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
        // Shutdown began before these instances ran.
        for accounts in takeWaiting() { await accounts.shutdown() }
    }

    private func takeWaiting() -> [IdentityComponents] {
        waiting.withLock { waiting in
            defer { waiting = [] }
            return waiting
        }
    }
}

/// Holds the `Accounts` of the current configuration.
final class CurrentAccounts: Sendable {
    private let current: Mutex<IdentityComponents>

    init(_ first: IdentityComponents) {
        current = Mutex(first)
    }

    var accounts: IdentityComponents { current.withLock { $0 } }

    func replace(with next: IdentityComponents) {
        current.withLock { $0 = next }
    }
}
