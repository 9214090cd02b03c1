import CloakroomCore

/// Permits, and the waiters that need one.
///
/// Invariant: while a waiter exists that no attempt in progress is expected to serve, and that is not held because of a
/// limit of requests in flight, no connection is idle, and the event loop is registered for the next permit.
extension UpstreamPoolStateMachine {
    /// Another event loop waits for a permit: gives up the oldest idle connection, if the loop has more permits than its
    /// guaranteed ones. If none is idle, the next one that becomes idle is given up.
    /// - Returns: `.close` or `.nothing`.
    package mutating func starved() -> ConnectionAction {
        guard permits.isBeyondGuarantee else { return .nothing }
        guard let connection = removeOldestIdle() else {
            owesPermit = true
            return .nothing
        }
        return .close(connection, returnPermit())
    }

    /// A permit may be available: begins a connection attempt if a waiter needs one. Call it until the result is not
    /// `.connect`.
    package mutating func permitAvailable() -> PermitAction {
        guard unserved <= 0 else { return connectForWaiters() }
        // Registered for a waiter that was served meanwhile.
        return passOnPermit()
    }

    /// The event loop needs no permit at the moment: the next one that waits is woken in its place.
    package mutating func passOnPermit() -> PermitAction {
        wake(permits.stopWaiting())
    }

    // MARK: - Used by the events

    /// Number of waiters that attempts in progress are expected to serve.
    var expected: Int { table.connecting * expectedStreams }

    /// Number of waiters that no attempt in progress is expected to serve; negative if attempts serve none.
    var unserved: Int { queue.count - expected }

    /// A waiter has left, or an attempt has begun.
    mutating func noteServed() {
        guard unserved <= 0 else { return }
        queuedSince = nil
        isHeld = false
        hasAsked = false
    }

    /// Takes a permit, if one is available; the loop does not register for one.
    mutating func takePermit() -> Bool {
        // What is idle gives its permit up first if another loop waits for one.
        if table.idle > 0, permits.isGuaranteeUsed, permits.isAwaited { return false }
        guard permits.take(isWaiting: false) else { return false }
        notePermitTaken()
        return true
    }

    /// Takes a permit, or registers for one.
    mutating func awaitPermit() -> PermitResult {
        let result = permits.takeOrAsk()
        guard result != .taken else {
            notePermitTaken()
            return .taken
        }
        // The registration may be that of a waiter that was served meanwhile, before other loops took their permits.
        defer { hasAsked = true }
        return hasAsked ? result : .ask
    }

    /// Loops that waited before this one used common permits did not ask it.
    private mutating func notePermitTaken() {
        if permits.isBeyondGuarantee, permits.isAwaited { owesPermit = true }
    }

    mutating func returnPermit() -> PermitAction {
        wake(permits.giveBack())
    }

    /// Uses the permit of a removed connection for a waiter, or returns it.
    mutating func reusePermit() -> PermitAction {
        guard unserved > 0, !isHeld else { return returnPermit() }
        return .connect(addAttempt())
    }

    mutating func returnPermits(of connections: [Connection]) -> ClosedConnections<Connection> {
        var closed = ClosedConnections(connections: connections)
        for _ in connections {
            if case .wake(let loop) = returnPermit() { closed.wakes.append(loop) }
        }
        return closed
    }

    /// Begins an attempt for a waiter that no attempt is expected to serve, if there is one.
    mutating func connectForWaiters() -> PermitAction {
        guard unserved > 0 else { return .nothing }
        return switch awaitPermit() {
        case .taken: .connect(addAttempt())
        case .ask: .askOthers
        case .asked: .nothing
        }
    }

    mutating func addAttempt() -> PooledConnectionID {
        let id = table.addAttempt()
        noteServed()
        return id
    }

    mutating func removeOldestIdle() -> Connection? {
        let index = table.oldestIdle()
        return index >= 0 ? table.remove(index) : nil
    }

    private func wake(_ loop: Int) -> PermitAction {
        loop >= 0 ? .wake(loop: loop) : .nothing
    }
}
