import CloakroomCore
import CloakroomTelemetry

/// The pool's side of HTTP/2 connections: one of them serves several requests at a time.
extension UpstreamPool: UpstreamHTTP2Owner {
    /// A lease that was not used. It is handed to the request that waits next, which may not use it either: such a release
    /// within a release is done afterwards, because thousands of them would exhaust the stack.
    func releaseUnused(_ lease: any UpstreamLease) {
        unused.append(lease)
        guard !isReleasing else { return }
        isReleasing = true
        defer { isReleasing = false }
        while let next = unused.popLast() { next.release() }
    }

    func http2Settled(_ connection: UpstreamHTTP2Connection) {
        connector.settled(connection)
        connected(.http2(connection), streams: connection.room)
    }

    func http2LeaseEnded(_ stream: UpstreamStream) {
        streams -= 1
        leaseEnded(&stream.isProbe, at: stream.target)
        if isClosed { updateGauges() }
    }

    func http2RoomChanged(_ connection: UpstreamHTTP2Connection) {
        if machine.waitingCount > 0 { expire() }
        let link = UpstreamLink.http2(connection)
        perform(machine.room(link, leases: connection.leases, further: connection.room))
        if machine.isHeld { serveHeld(isPassedOn: false) }
        if isClosed { updateGauges() }
    }

    func http2Closing(_ connection: UpstreamHTTP2Connection) {
        perform(machine.retire(.http2(connection)))
    }

    func http2Closed(_ connection: UpstreamHTTP2Connection, isSettled: Bool, failure: UpstreamFailure) {
        guard isSettled else { return connector.settleFailed(connection, failure) }
        perform(machine.gone(.http2(connection)))
        if isClosed { updateGauges() }
    }

    func count(_ removed: RemovedResponseFields) { upstream.metrics.count(removed) }

    /// Serves waiters with further streams of a connection, or otherwise, until none can be served.
    func serveFurther(after link: UpstreamLink) {
        while true {
            let action = machine.next(for: link)
            switch action {
            case .handOver(let other, let waiter):
                handOver(other, to: waiter)
            case .close(_, .connect), .permit(.connect): perform(action)
            default: return perform(action)
            }
        }
    }

    /// The connection has less room than the state machine assumes.
    func hasNoRoom(_ link: UpstreamLink) {
        guard case .http2(let connection) = link else {
            link.evict()
            return perform(machine.gone(link))
        }
        perform(machine.room(link, leases: connection.leases, further: 0))
    }

    /// A gRPC call ended with a status.
    /// - Returns: Whether it counts as a failure of the target.
    @discardableResult
    func callEnded(_ lease: any UpstreamLease, status: GRPCStatus, sentAt: UInt64, after duration: UInt64?) -> Bool {
        switch status {
        case .unavailable:
            requestFailed(lease, sentAt: sentAt, after: duration)
            return true
        case .resourceExhausted:
            lease.target.state.throttled(now: context.now)
            return false
        default:
            return false
        }
    }
}
