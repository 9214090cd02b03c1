import CloakroomCore
import CloakroomHTTP2
import CloakroomWire
import NIOCore

/// Deadlines and ends of the connection (RFC 9113 §5.4, §6.8).
extension HTTP2DownstreamHandler {
    static let announcementTime: UInt64 = 1_000_000_000

    /// The client has violated the protocol, or exceeded its budget. A GOAWAY is in the output.
    func connectionFailed(_ code: HTTP2ErrorCode) {
        guard code != .enhanceYourCalm else {
            context.reject("http2_flood", from: peer?.address ?? "unknown")
            return closeNow()
        }
        context.reject("http2_connection", from: peer?.address ?? "unknown")
        closeStreams()
        linger()
    }

    private func goAway(_ code: HTTP2ErrorCode) {
        connection.writeGoAway(code)
        send()
    }

    /// Begins a graceful shutdown: asks the client to send no more requests, and accepts those in flight.
    func beginGracefulShutdown() {
        guard phase == .open else { return }
        phase = .goAwaySent
        connection.announceShutdown()
        flushLater()
        deadlines.announced(context.now &+ Self.announcementTime)
    }

    /// The responses that wait for the client take memory that others need.
    func endForMemory() {
        context.reject("http2_waiting_responses", from: peer?.address ?? "unknown")
        goAway(.enhanceYourCalm)
        closeNow()
    }

    func returnIdleWindow() -> Bool {
        guard hasBodyWindow, connection.streamCount == 0, phase == .open else { return false }
        beginGracefulShutdown()
        return true
    }

    var idle: (since: UInt64, load: ClientLoad?)? {
        guard connection.streamCount == 0, phase < .lingering, SendQueue.buffered(in: channel) == 0 else { return nil }
        return (max(idleStart, headStart), client.load)
    }

    var isAllAcknowledged: Bool { SendQueue.unacknowledged(in: channel) == 0 }

    func endIdle() {
        goAway(.noError)
        phase = .closed
        ChannelCut.closeIdle(channel)
    }

    func sendFinalGoAway() {
        guard phase == .goAwaySent else { return }
        phase = .draining
        connection.finishShutdown()
        flushLater()
    }

    func closeIfDone() {
        if phase == .draining, connection.streamCount == 0 { linger() }
    }

    private func linger() {
        guard phase < .lingering, let handlerContext else { return }
        phase = .lingering
        setPaused(false)
        deadlines = HTTP2Deadlines()
        // The body timeout applies until everything is sent; then the linger time begins.
        deadlines.idle = context.now &+ context.snapshot.timeouts.bodyIdle
        send()
        let sent = channel.eventLoop.makePromise(of: Void.self)
        sent.futureResult.assumeIsolated().whenComplete { [self] _ in
            if phase == .lingering { deadlines.idle = context.updateTime() &+ HTTP1DownstreamHandler.lingerTime }
        }
        handlerContext.close(mode: .output, promise: sent)
    }

    func deadlineExpired(now: UInt64) {
        switch deadlines.expire(now: now) {
        case .incompleteFrame:
            // A frame or a header block that was begun is not continued.
            context.reject("http2_timeout", from: peer?.address ?? "unknown")
            goAway(.enhanceYourCalm)
            closeNow()
        case .streams:
            var next = UInt64.max
            forEachStream { stream in
                if stream.deadline <= now { stream.deadlineExpired(now: now) }
                next = min(next, stream.deadline)
            }
            deadlines.streams = min(deadlines.streams, next)
        case .quiet:
            compact()
        case .announcement:
            // The client has not acknowledged the announcement.
            sendFinalGoAway()
        case .idle:
            idleDeadlineExpired()
        case .none:
            break
        }
    }

    private func idleDeadlineExpired() {
        // Streams that were open when the connection broke have ended, although their state is kept.
        guard phase >= .lingering || connection.streamCount == 0 else { return }
        switch phase {
        case .open:
            // The idle timeout has passed.
            phase = .draining
            goAway(.noError)
            closeIfDone()
        case .goAwaySent:
            sendFinalGoAway()
            closeIfDone()
        case .lingering:
            // A close would reset the connection of a client that still receives, and acknowledges with WINDOW_UPDATE.
            let left = SendQueue.unacknowledged(in: channel)
            if left > 0, left + Self.lingerProgress <= lingeringBytes {
                lingeringBytes = left
                deadlines.idle = context.now &+ HTTP1DownstreamHandler.lingerTime
                return
            }
            // The client has not closed its side: nothing is to be sent any more.
            phase = .closed
            ChannelCut.closeBelowTLS(channel)
        case .draining, .closed:
            closeNow()
        }
    }

    func configurationReplaced() { forEachStream { $0.configurationReplaced() } }

    func sessionsChanged(now: UInt64) { forEachStream { $0.sessionsChanged(now: now) } }

    func drain() {
        forEachStream { $0.drain() }
        // A client that has sent a GOAWAY itself needs no first one.
        if phase == .goAwaySent { sendFinalGoAway() } else { beginGracefulShutdown() }
    }

    func closeNow() {
        guard phase != .closed else { return }
        phase = .closed
        send()
        closeStreams()
        // The TLS handler would wait for the client, which may have caused the end: see ``ChannelCut/closeBelowTLS(_:)``.
        ChannelCut.closeIdle(channel)
    }
}
