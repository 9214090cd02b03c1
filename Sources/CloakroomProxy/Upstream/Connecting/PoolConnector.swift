import CloakroomCore
import CloakroomTelemetry
import NIOCore

/// Connects for one pool: tries one target after another until a connection is established, the pool needs none any
/// more, or the timeout passes.
///
/// Folder `Connecting/`: resolves names, connects, and verifies TLS.
final class PoolConnector {
    private unowned let pool: UpstreamPool
    private let context: LoopContext
    private let connector: UpstreamConnector
    /// HTTP/2 connections that are not settled.
    private var settling: [Settling] = []

    /// One connection attempt, over several targets.
    private struct ConnectAttempt {
        let id: PooledConnectionID
        let startedAt: UInt64
        let deadline: UInt64
        var target: TargetRuntime
        var tried = TriedTargets()
        var tries = 0
    }

    /// An HTTP/2 connection whose peer has not sent its SETTINGS.
    private struct Settling {
        let connection: UpstreamHTTP2Connection
        let attempt: ConnectAttempt
        let since: UInt64
    }

    init(pool: UpstreamPool, context: LoopContext) {
        self.pool = pool
        self.context = context
        connector = UpstreamConnector(eventLoop: context.eventLoop)
    }

    /// Starts a connection attempt and reports the result to the pool. The result is reported asynchronously even if it
    /// is known at once, as with Unix domain sockets.
    func connect(_ id: PooledConnectionID, to target: TargetRuntime) {
        let now = context.now
        let attempt = ConnectAttempt(
            id: id, startedAt: now, deadline: now &+ pool.settings.connect, target: target)
        // The attempt counts as load of its target until its connection serves a request, which counts itself.
        target.state.started(now: now)
        // The pool may be released meanwhile: it is retained until the attempt has ended.
        context.eventLoop.assumeIsolated().execute { [pool] in
            withExtendedLifetime(pool) {
                self.context.updateTime()
                self.startAttempt(attempt)
            }
        }
    }

    private func startAttempt(_ attempt: ConnectAttempt) {
        let now = context.now
        var attempt = attempt
        // Half of the remaining time, so an unresponsive target leaves time for the others.
        attempt.tries += 1
        let isLast = attempt.tries >= pool.targetsToTry
        let left = attempt.deadline > now ? attempt.deadline - now : 0
        attempt.tried.insert(attempt.target.state.slot)
        let limit = isLast ? left : left / 2
        connector.connect(attempt.target, pool.protocolVersion, within: .nanoseconds(Int64(clamping: limit)))
            .assumeIsolated().whenComplete { [pool] result in
                withExtendedLifetime(pool) {
                    self.context.updateTime()
                    self.ended(result, of: attempt, since: now, deadline: now &+ limit)
                }
            }
    }

    private func ended(
        _ result: Result<UpstreamConnector.Established, any Error>, of attempt: ConnectAttempt, since: UInt64,
        deadline: UInt64
    ) {
        let target = attempt.target
        do {
            let established = try result.get()
            let channel = established.channel
            guard !established.isHTTP2 else {
                return try settle(channel, of: attempt, since: since, deadline: deadline)
            }
            // The channel may be closed already; then its pipeline rejects the handler.
            let connection = UpstreamConnection(
                channel: channel, pool: pool, context: context, target: target, poolID: attempt.id)
            connection.lifetime = pool.newLifetime
            try channel.pipeline.syncOperations.addHandler(connection)
            succeeded(target, at: channel.remoteAddress)
            pool.connected(.http1(connection), streams: 1)
        } catch {
            failed(error, UpstreamFailure(connecting: error, to: target), of: attempt, since: since)
        }
    }

    private func succeeded(_ target: TargetRuntime, at address: SocketAddress?) {
        let targets = pool.upstream.targets
        target.state.ended(owesHead: true)
        target.connected()
        targets.established(target, at: address)
        targets.board.connected(target.state, now: context.now)
        pool.upstream.targetMetrics[target.index].connects[.success]?.increment()
    }

    private func failed(
        _ error: any Error, _ failure: UpstreamFailure, of attempt: ConnectAttempt, since: UInt64
    ) {
        let now = context.now
        let target = attempt.target
        let targets = pool.upstream.targets
        target.state.ended(owesHead: true)
        pool.upstream.targetMetrics[target.index].connects[UpstreamFailure.connectOutcome(of: error)]?.increment()
        target.record(failure.kind, error, now: now, time: context.wallTime(at: now))
        if failure.kind != .noResources {
            targets.board.connectFailed(target.state, startedAt: since, now: now, random: context.random())
            targets.connectFailed(target)
        }
        tryOther(after: failure, of: attempt, now: now)
    }

    private func tryOther(after failure: UpstreamFailure, of attempt: ConnectAttempt, now: UInt64) {
        let mayTryOther = now < attempt.deadline && attempt.tries < pool.targetsToTry
        let next = mayTryOther ? pool.otherTarget(tried: attempt.tried) : nil
        guard
            pool.connectFailed(
                attempt.id, failure, on: attempt.target, startedAt: attempt.startedAt, tries: attempt.tries,
                next: next?.choice)
        else { return }
        guard let next else { return }
        var attempt = attempt
        attempt.target = next.target
        next.target.state.started(now: now)
        startAttempt(attempt)
    }
}

/// HTTP/2: waits for the peer's SETTINGS. Until then it is not certain that it supports HTTP/2.
extension PoolConnector {
    private func settle(
        _ channel: any Channel, of attempt: ConnectAttempt, since: UInt64, deadline: UInt64
    ) throws {
        let configuration = pool.upstream.configuration
        let settings = UpstreamHTTP2Connection.Settings(
            streams: configuration.pool.streams, streamWindow: configuration.pool.streamWindow,
            headLimits: pool.settings.headLimits, idleTimeout: pool.idleTimeout, settleDeadline: deadline,
            scheme: attempt.target.tls == nil ? "http" : "https",
            apiTokenName: configuration.apiToken?.header.lowercased() ?? "",
            bearerName: configuration.bearer.header.lowercased())
        let connection = UpstreamHTTP2Connection(
            owner: pool, context: context, target: attempt.target, poolID: attempt.id, settings: settings)
        connection.lifetime = pool.newLifetime
        connection.metrics = pool.http2Metrics
        settling.append(Settling(connection: connection, attempt: attempt, since: since))
        do {
            try channel.pipeline.syncOperations.addHandlers(connection.makeFrameHandlers() + [connection])
        } catch {
            // The handlers may have reported the end already.
            if takeSettling(connection) != nil { throw error }
        }
    }

    /// The peer has sent its SETTINGS.
    func settled(_ connection: UpstreamHTTP2Connection) {
        guard takeSettling(connection) != nil else { return }
        succeeded(connection.target, at: connection.remoteAddress)
    }

    /// The connection was closed before the peer sent its SETTINGS.
    func settleFailed(_ connection: UpstreamHTTP2Connection, _ failure: UpstreamFailure) {
        guard let settling = takeSettling(connection) else { return }
        // A target that did not respond in time may support HTTP/2.
        let isTimeout = failure.kind == .connectTimeout
        let limit = TimeAmount.nanoseconds(Int64(clamping: context.now &- settling.since))
        let error: any Error = isTimeout ? ChannelError.connectTimeout(limit) : HTTP2NotSupported()
        failed(
            error, UpstreamFailure(connecting: error, to: settling.attempt.target), of: settling.attempt,
            since: settling.since)
    }

    private func takeSettling(_ connection: UpstreamHTTP2Connection) -> Settling? {
        guard let index = settling.firstIndex(where: { $0.connection === connection }) else { return nil }
        return settling.remove(at: index)
    }
}

/// The target closed the connection before it sent valid SETTINGS (RFC 9113 §3.4).
struct HTTP2NotSupported: Error, CustomStringConvertible {
    var description: String { "no valid HTTP/2 connection preface was received; check the protocol of the upstream" }
}
