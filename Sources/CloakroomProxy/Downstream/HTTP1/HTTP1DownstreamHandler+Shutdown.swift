import CloakroomCore
import NIOCore

/// Deadlines and ends of the connection (RFC 9112 §9.5, §9.6).
extension HTTP1DownstreamHandler {
    /// How long a connection lingers after its last response, so that the client can read it, in nanoseconds.
    static let lingerTime: UInt64 = 1_000_000_000

    /// The last response is written: input in flight is read and discarded, so that the peer is not reset before it has
    /// read the response (RFC 9112 §9.6).
    func linger(for time: UInt64 = lingerTime) {
        guard let handlerContext, let action = state.linger() else { return }
        if isPaused { setPaused(false) }
        // The body timeout applies until everything is sent; then the linger time begins.
        deadline = waitForClient()
        guard action == .closeOutput else { return lingerAfterTunnel(for: time) }
        let sent = channel.eventLoop.makePromise(of: Void.self)
        sent.futureResult.assumeIsolated().whenComplete { [self] result in
            if case .success = result { state.responseSent() }
            if time == 0 { closeNow() } else { deadline = context.now &+ time }
        }
        handlerContext.close(mode: .output, promise: sent)
    }

    /// As ``linger(for:)``, but the write side is closed after the pending data is sent.
    private func lingerAfterTunnel(for time: UInt64) {
        flush()
        handlerContext?.afterFlush { [self] handlerContext in
            state.responseSent()
            guard !state.hasInputEnded, time > 0 else { return closeNow() }
            deadline = context.now &+ time
            handlerContext.close(mode: .output, promise: nil)
        }
    }

    var idle: (since: UInt64, load: ClientLoad?)? {
        guard state.phase == .head, !isActive, unacceptedBytes(isExact: false) == 0 else { return nil }
        return (idleStart, client.load)
    }

    var isAllAcknowledged: Bool { SendQueue.unacknowledged(in: channel) == 0 }

    func endIdle() {
        if state.close() { ChannelCut.closeIdle(channel) }
    }

    func closeNow() { close(isCut: state.isResponseIncomplete(isActive: isActive)) }

    /// - Parameter isCut: Whether the client must be able to detect that the response is incomplete.
    func close(isCut: Bool) {
        guard state.close() else { return }
        if isCut {
            ChannelCut.close(channel, framing: writer.framing)
        } else {
            handlerContext?.close(promise: nil)
        }
    }

    func deadlineExpired(now: UInt64) {
        if let exchange, exchange.isActive {
            exchange.deadlineExpired(now: now)
        } else if clientMayContinue(now: now) {
            return
        } else if channel.isWritable, state.isReceivingHead {
            deadline = .max
            state.requestHeadTimedOut()
            (exchange ?? makeExchange()).requestHeadTimedOut(now: now)
        } else if state.phase == .head, now < idleEnd {
            if !state.isReceivingHead { releaseMemory() }
            deadline = idleEnd
        } else if state.phase == .head, state.closesAfterResponse, channel.isWritable {
            linger(for: 0)
        } else if state.hasLingered {
            // close_notify has been sent, and the client had the linger time to respond to it.
            if state.close() { ChannelCut.closeBelowTLS(channel) }
        } else {
            closeNow()
        }
    }

    var usesTLS: Bool { client.isTLS }
    func configurationReplaced() { exchange?.configurationReplaced() }
    func sessionsChanged(now: UInt64) { exchange?.sessionsChanged(now: now) }

    func drain() {
        state.drain()
        guard hasBegun else { return closeNow() }
        exchange?.drain()
        if !isActive, state.phase == .head, !state.hasInput { waitForLastRequest() }
    }

    /// The connection drains, and its client does not know it: it may have sent one more request.
    func waitForLastRequest() {
        // The last response may not be sent yet.
        guard context.requestGrace > 0 else { return linger(for: 0) }
        guard channel.isWritable else { return }
        idleEnd = min(idleEnd, context.now &+ context.requestGrace)
        deadline = min(deadline, idleEnd)
    }
}
