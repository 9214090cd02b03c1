/// Names a connection, or the attempt to establish it, in an ``UpstreamPoolStateMachine``.
///
/// Created with the attempt; the connection that results from it keeps it for its life. An identifier is not used again
/// for 2³² connections, so a late event of a closed connection has no effect.
package struct PooledConnectionID: Hashable, Sendable {
    let index: UInt32
    let generation: UInt32
}

/// Names a waiter in the queue of an ``UpstreamPoolStateMachine``. No longer valid once the waiter has left the queue.
package struct WaiterID: Hashable, Sendable {
    let index: UInt32
    let generation: UInt32
}

/// What an ``UpstreamPoolStateMachine`` needs to know of a connection.
package protocol PooledConnection {
    /// The identifier of the attempt that established it.
    var poolID: PooledConnectionID { get }
    /// Whether its target may be used at the moment: not ejected, not in back-off, not down, not draining; or the
    /// upstream is in panic. With several streams, also whether the target has room. Read only when a connection that
    /// becomes free could serve a waiter, and when no permit is left.
    var isTargetUsable: Bool { get }
}

/// Whether a connection can serve the waiter that has waited longest.
package enum PoolService: Sendable {
    case permitted
    /// The place in flight that has just ended is for another event loop: the waiter is held.
    case held
    /// The request was sent to the target of the connection already.
    case unsuitable
}

/// What to do for a permit: that of a connection that was closed, or one that a waiter needs.
package enum PermitAction: Equatable, Sendable {
    case nothing
    /// It serves a new connection attempt of this event loop, for a waiter: select a target, then call
    /// ``UpstreamPoolStateMachine/begin(_:on:)``. If no target can be selected: `connectFailed(_:mayTryOther: false)`.
    case connect(PooledConnectionID)
    /// It was returned, and the event loop with this index waits for one: call its
    /// ``UpstreamPoolStateMachine/permitAvailable()``.
    case wake(loop: Int)
    /// None is available: call ``UpstreamPoolStateMachine/starved()`` on the other event loops that have more than the
    /// guaranteed ones.
    case askOthers
}

/// The result of a request for a connection.
package enum PoolLeaseAction<Connection> {
    /// Use the connection; it may belong to another target than the first choice.
    case use(Connection)
    /// Wait; a connection attempt to the first choice begins.
    case waitAndConnect(WaiterID, PooledConnectionID)
    /// Wait; a connection attempt to the first choice begins, with the permit of an idle connection, which is closed.
    case waitAndReplace(WaiterID, PooledConnectionID, close: Connection)
    /// Wait until a connection becomes available. No attempt begins.
    /// - Parameter asksOthers: As ``PermitAction/askOthers``.
    case wait(WaiterID, asksOthers: Bool)
    /// The queue is full: reject the request.
    case rejectQueueFull
}

/// What to do after an event of one connection.
package enum PooledConnectionAction<Connection, Waiter> {
    case nothing
    /// Assign the connection, or one of its streams, to this waiter. If the connection carries several streams: call
    /// ``UpstreamPoolStateMachine/next(for:)`` afterwards.
    case handOver(Connection, to: Waiter)
    /// The connection is idle.
    case keep(Connection)
    /// Close the connection. The pool no longer knows it.
    case close(Connection, PermitAction)
    /// A waiter needs another connection.
    case permit(PermitAction)
}

/// What to do after a failed connection attempt.
package enum ConnectFailedAction<Waiter> {
    /// Try another target with the same attempt, as ``PermitAction/connect(_:)``.
    case connectOther(PooledConnectionID)
    /// Fail these waiters, which have waited longest; there may be none.
    case fail([Waiter], PermitAction)
}

/// Why a waiter is rejected.
package enum QueueExpiry: Equatable, Sendable {
    /// It waited for `pendingTimeout`.
    case timeout
    /// The queue is congested, and the waiter has waited for `congestedTimeout`.
    case congested
    /// Its own deadline has passed.
    case deadline
}

/// A waiter to reject.
package struct ExpiredWaiter<Waiter> {
    /// The waiter, which has left the queue.
    package let waiter: Waiter
    /// The limit that it has reached.
    package let reason: QueueExpiry
}

/// Limits of an ``UpstreamPoolStateMachine``. Times are in nanoseconds.
package struct PoolLimits: Sendable {
    /// Maximum time in the queue.
    package var pendingTimeout: UInt64
    /// Time after which a queue that was never empty is congested.
    package var congestedAfter: UInt64
    /// Maximum time in a congested queue.
    package var congestedTimeout: UInt64
    /// Number of streams that the first connection is expected to allow: 1 for HTTP/1.1 and if the protocol is not known
    /// before. Later ones are expected to allow as many as the last one.
    package var streams: Int
    /// Maximum number of targets that one connection attempt tries.
    package var targets: Int

    package init(
        pendingTimeout: UInt64, congestedAfter: UInt64, congestedTimeout: UInt64, streams: Int = 1, targets: Int = 3
    ) {
        self.pendingTimeout = pendingTimeout
        self.congestedAfter = congestedAfter
        self.congestedTimeout = congestedTimeout
        self.streams = streams
        self.targets = targets
    }
}

/// Connections to close together. The pool no longer knows them.
package struct ClosedConnections<Connection> {
    package var connections: [Connection] = []
    /// Event loops that wait for permits which were returned, as ``PermitAction/wake(loop:)``.
    package var wakes: [Int] = []
}

extension PoolLeaseAction: Equatable where Connection: Equatable {}
extension PooledConnectionAction: Equatable where Connection: Equatable, Waiter: Equatable {}
extension ConnectFailedAction: Equatable where Waiter: Equatable {}
extension ExpiredWaiter: Equatable where Waiter: Equatable {}
extension ClosedConnections: Equatable where Connection: Equatable {}
