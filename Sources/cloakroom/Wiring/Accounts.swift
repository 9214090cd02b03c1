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
struct Accounts: Sendable, Unprintable {
    let ownEndpoints: any OwnEndpoints
    let renewer: any SessionRenewing
    /// Whose tokens are dealt in; `nil` where nobody signs in.
    let source: SessionSource?
    private let parts: Parts?
    private let ended = AsyncStream.makeStream(of: Never.self)
    /// How long revocations may hold up the end: one call that is not answered.
    private static let revocationBound = Duration.seconds(2)
    /// How long revocations may go on after a reload, when there is no hurry.
    private static let reloadRevocationBound = Duration.seconds(60)

    private struct Parts {
        let client: UpstreamTokenClient
        let renewer: SessionRenewer
        let revocations: TokenRevocations
    }

    /// - Parameter targets: Those of each upstream of the plan, which requests use too.
    /// - Throws: ``UpstreamTLSError`` if a file for TLS with the upstream is of no use.
    init(
        _ plan: GatewayPlan, targets: [UpstreamTargets], sessions: SessionStoreSetup, observer: AccountTelemetry,
        flightClock: SessionClock,
        tracer: (any Tracer)?
    ) throws {
        source = plan.sessionSource
        guard let source, let index = plan.accounts.upstream else {
            ownEndpoints = NoOwnEndpoints()
            renewer = NoRenewal()
            parts = nil
            return
        }
        let upstream = plan.upstreams[index]
        let client = UpstreamTokenClient(
            upstream, targets: targets[index], timeouts: plan.timeouts,
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            tls: try UpstreamTLS.configuration(upstream.tls), tracer: tracer,
            onInvalidLifetime: { [name = upstream.name] in observer.audit.tokenLifetimeInvalid(upstream: name) })
        let sessionRenewer = SessionRenewer(
            store: sessions.store, client: client, observer: observer, canRenew: client.canRenew, source: source,
            limits: RenewalLimits(plan.timeouts), clock: { .now }, flightClock: { flightClock.now },
            tracer: tracer)
        let revocations = TokenRevocations(client: client, observer: observer, source: source)
        ownEndpoints = AccountEndpoints(
            store: sessions.store, client: client, observer: observer, session: plan.session, accounts: plan.accounts,
            accounts: sessions.accounts, source: source, revocations: revocations, tracer: tracer)
        renewer = sessionRenewer
        parts = Parts(client: client, renewer: sessionRenewer, revocations: revocations)
    }

    /// Has the tokens of ended sessions revoked upstream in the background.
    func revoke(_ ended: [EndedSession]) -> AccountEvent.EndedTokens {
        parts?.revocations.revoke(ended) ?? .notRevokedSourceGone
    }

    /// Nobody asks it any more.
    func end() {
        ended.continuation.finish()
    }

    /// Goes on until ``end()``, or until its task is cancelled; then waits for renewals that are under way: a refresh
    /// token that was spent and whose successor was not kept would be a session lost.
    func run() async {
        await withTaskGroup(of: Void.self) { group in
            if let renewer = parts?.renewer { group.addTask { await renewer.run() } }
            group.addTask { for await _ in ended.stream {} }
            await group.next()
            group.cancelAll()
        }
        // After a reload those that wait get their turn. A stop of the process, which cancels this, ends that.
        await parts?.revocations.drain(within: Self.reloadRevocationBound)
        await parts?.revocations.finish(within: Self.revocationBound)
        await discard()
    }

    /// Closes the connections for sign-ins. For what was never put to use, too.
    func discard() async {
        await parts?.client.shutdown()
    }
}

/// Runs the accounts of the configuration in effect, and of those before it for as long as they are needed.
final class AccountsService: Service, Unprintable {
    private let arrivals = AsyncStream.makeStream(of: Void.self)
    /// Those that were taken over and do not run yet.
    private let waiting = Mutex<[Accounts]>([])

    /// Takes over another one.
    func add(_ accounts: Accounts) {
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
        for accounts in takeWaiting() { await accounts.discard() }
    }

    private func takeWaiting() -> [Accounts] {
        waiting.withLock { waiting in
            defer { waiting = [] }
            return waiting
        }
    }
}
