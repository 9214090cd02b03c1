import CloakroomCore
import NIOCore

/// Connects for one pool: tries one target after another until a connection is established or the timeout passes.
///
/// Folder `Connecting/`: decides which target is tried and when it is skipped; resolves names, connects, and verifies
/// TLS.
final class PoolConnector {
    private unowned let pool: UpstreamPool
    private let context: LoopContext
    private let connector: UpstreamConnector
    private let limit: UInt64

    /// One connection attempt, over all targets.
    private struct ConnectAttempt {
        let startedAt: UInt64
        let deadline: UInt64
        var tried: [Int] = []
    }

    init(pool: UpstreamPool, context: LoopContext) {
        self.pool = pool
        self.context = context
        connector = UpstreamConnector(eventLoop: context.eventLoop)
        limit = pool.connectTimeout
    }

    /// Starts a connection attempt and reports the result to the pool. The result is reported asynchronously even if it
    /// is known at once, as with Unix domain sockets.
    func connect() {
        let now = context.now
        // The pool may be released meanwhile: it is retained until the attempt has ended.
        context.eventLoop.assumeIsolated().execute { [pool] in
            withExtendedLifetime(pool) {
                self.context.updateTime()
                self.go(on: ConnectAttempt(startedAt: now, deadline: now &+ self.limit), after: nil)
            }
        }
    }

    private func go(on connect: ConnectAttempt, after failure: UpstreamFailure?) {
        let now = context.now
        var connect = connect
        guard now < connect.deadline, let index = pool.upstream.selector.selectTarget(tried: connect.tried, now: now)
        else {
            pool.connectFailed(
                failure ?? UpstreamFailure(.connectTimeout), target: connect.tried.last ?? 0,
                duration: now &- connect.startedAt
            )
            return
        }
        connect.tried.append(index)
        // Half of the remaining time, so an unresponsive target leaves time for the others.
        let isLast = connect.tried.count == pool.upstream.targets.count
        let time = isLast ? connect.deadline - now : (connect.deadline - now) / 2
        connector.connect(pool.upstream.targets[index], within: .nanoseconds(Int64(clamping: time)))
            .assumeIsolated().whenComplete { [pool] result in
                withExtendedLifetime(pool) {
                    self.context.updateTime()
                    self.ended(result, of: connect, at: index, since: now)
                }
            }
    }

    private func ended(
        _ result: Result<any Channel, any Error>, of connect: ConnectAttempt, at index: Int, since: UInt64
    ) {
        let now = context.now
        do {
            let channel = try result.get()
            // The channel may be closed already; then its pipeline rejects the handler.
            let connection = UpstreamConnection(channel: channel, pool: pool, context: context, targetIndex: index)
            connection.lifetime = pool.newLifetime
            try channel.pipeline.syncOperations.addHandler(connection)
            pool.upstream.selector.targetReached(index)
            pool.connected(connection)
        } catch {
            let failure = UpstreamFailure(connecting: error)
            pool.upstream.selector.failed(
                index, failure.kind, error, startedAt: since, now: now, time: context.timestamp(at: now),
                random: context.random())
            go(on: connect, after: failure)
        }
    }
}
