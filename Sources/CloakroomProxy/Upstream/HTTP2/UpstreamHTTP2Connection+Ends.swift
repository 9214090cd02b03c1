import CloakroomCore
import DequeModule
import NIOCore
import NIOHTTP2

/// How a connection ends.
extension UpstreamHTTP2Connection {
    /// Adds no more streams, and closes the connection when none is in use.
    func retire() { beginClosing(isGoAway: false) }

    /// - Parameter isGoAway: Whether the peer adds no more streams, also none that are leased already.
    func beginClosing(isGoAway: Bool) {
        switch machine.beginClosing(isGoAway: isGoAway) {
        case .drain:
            reportClosing()
            if isGoAway { failUnsent() }
        case .close:
            closeGracefully()
        case .nothing:
            break
        }
    }

    private func reportClosing() {
        guard isSettled, !hasReportedClosing, !hasReportedEnd else { return }
        hasReportedClosing = true
        owner?.http2Closing(self)
    }

    /// The peer does not permit these streams. Their heads were never written, so the requests can be sent elsewhere.
    /// - Parameter kept: Number of streams that it still permits.
    func failUnsent(keeping kept: Int = 0) {
        let unsent = queue.filter { $0.id == 0 }.dropFirst(kept)
        queue.removeAll { unsent.contains($0) }
        for stream in unsent where stream.isServing {
            stream.isQueued = false
            stream.fail(kindOfUnprocessed)
            perform(machine.releaseUnsent(now: context.now))
        }
    }

    /// Announces the end to the peer (RFC 9113 §6.8), and closes.
    func closeGracefully() {
        reportClosing()
        guard let handlerContext else { return }
        let frame = HTTP2Frame(
            streamID: .rootStream,
            payload: .goAway(lastStreamID: .rootStream, errorCode: .noError, opaqueData: nil))
        // Not in a callback of NIOHTTP2; nothing else is written after it.
        context.eventLoop.assumeIsolated().execute { [self] in
            handlerContext.writeAndFlush(wrapOutboundOut(frame), promise: nil)
            handlerContext.close(promise: nil)
        }
    }

    /// The connection is unusable.
    func fail(_ kind: UpstreamFailure.Kind) {
        if !hasReportedEnd { failure = UpstreamFailure(kind) }
        machine.close()
        reportClosing()
        handlerContext?.close(promise: nil)
    }

    func ended() {
        guard !hasReportedEnd else { return }
        hasReportedEnd = true
        machine.close()
        context.remove(self)
        let streams = Array(table.values)
        let unsent = queue.filter { $0.id == 0 }
        table.removeAll()
        queue.removeAll()
        resets.removeAll()
        consumed.removeAll()
        touched.removeAll()
        owner?.http2Closed(self, isSettled: isSettled, failure: failure)
        for stream in unsent where stream.isServing { stream.fail(kindOfUnprocessed) }
        for stream in streams where stream.isServing && !stream.isResponseReceived {
            let isInvalid = failure.kind == .invalidResponse
            let isStale = !stream.hasHead && !isInvalid && stream.readsAtStart == reads && reads > 1
            stream.fail(
                isInvalid ? .invalidResponse : stream.hasHead ? .closedDuringResponse : .closedBeforeResponse,
                isStale: isStale)
        }
        for stream in streams { stream.closed() }
        releaseOwner()
    }

    /// Responses that wait for their clients outlive the connection.
    private func releaseOwner() {
        guard leases == 0 else { return }
        owner = nil
        releaseFlushTask()
    }

    /// An exchange no longer needs its stream.
    func leaseEnded(_ stream: UpstreamStream) {
        endLease()
        target.state.ended(owesHead: stream.owesHead)
        owner?.http2LeaseEnded(stream)
        guard !hasReportedEnd else { return releaseOwner() }
        // Otherwise the room changes when the stream is closed.
        if stream.id != 0, table[stream.id] !== stream { owner?.http2RoomChanged(self) }
    }
}
