import CloakroomCore
import NIOCore

/// Makes the connections of one pool: tries one target after another until a connection stands, or the time is over.
final class UpstreamPoolDialer {
    private unowned let pool: UpstreamPool
    private let context: LoopContext
    private let dialer: UpstreamDialer
    private let limit: UInt64

    /// One connection on its way.
    private struct Dial {
        let begunAt: UInt64
        let deadline: UInt64
        var tried: [Int] = []
    }

    init(pool: UpstreamPool, context: LoopContext) {
        self.pool = pool
        self.context = context
        dialer = UpstreamDialer(eventLoop: context.eventLoop)
        limit = pool.connectTimeout
    }

    /// Makes a connection; the pool is told what became of it. Never before this returns, even where the system knows at
    /// once, as with sockets of this machine.
    func dial() {
        let now = context.now
        // The pool may be given up meanwhile: it stays until the dial has ended.
        context.eventLoop.assumeIsolated().execute { [pool] in
            withExtendedLifetime(pool) {
                self.context.beginEvent()
                self.go(on: Dial(begunAt: now, deadline: now &+ self.limit), after: nil)
            }
        }
    }

    private func go(on dial: Dial, after failure: UpstreamFailure?) {
        let now = context.now
        var dial = dial
        guard now < dial.deadline, let index = pool.upstream.selector.choose(tried: dial.tried, now: now) else {
            pool.dialFailed(
                failure ?? UpstreamFailure(.connectTimeout), target: dial.tried.last ?? 0, duration: now &- dial.begunAt
            )
            return
        }
        dial.tried.append(index)
        // A target that says nothing must leave some time for the others.
        let isLast = dial.tried.count == pool.upstream.targets.count
        let time = isLast ? dial.deadline - now : (dial.deadline - now) / 2
        dialer.dial(pool.upstream.targets[index], within: .nanoseconds(Int64(clamping: time)))
            .assumeIsolated().whenComplete { [pool] result in
                withExtendedLifetime(pool) {
                    self.context.beginEvent()
                    self.ended(result, of: dial, at: index, since: now)
                }
            }
    }

    private func ended(_ result: Result<any Channel, any Error>, of dial: Dial, at index: Int, since: UInt64) {
        let now = context.now
        do {
            let channel = try result.get()
            // It may be closed already: then there is no pipeline that takes a handler.
            let connection = UpstreamConnection(channel: channel, pool: pool, context: context, targetIndex: index)
            connection.tenure = pool.newTenure
            try channel.pipeline.syncOperations.addHandler(connection)
            pool.upstream.selector.targetReached(index)
            pool.dialed(connection)
        } catch {
            let failure = UpstreamFailure(dialing: error)
            pool.upstream.selector.failed(
                index, failure.kind, error, begunAt: since, now: now, time: context.timestamp(at: now),
                random: context.random())
            go(on: dial, after: failure)
        }
    }
}
