import CloakroomCore

/// The waiters of the pool, and for how long they may wait.
///
/// `pendingTimeout` is the limit as long as the queue was empty recently. A queue that has not been empty for
/// `congestedAfter` is congested: then `congestedTimeout` is the limit, so that most requests are served fast and the
/// others rejected fast. Waiters that attempts in progress are expected to serve do not count as a queue.
extension UpstreamPoolStateMachine {
    /// A waiter no longer needs a connection. Constant time.
    /// - Returns: The waiter; `nil` if it is not in the queue.
    @discardableResult
    package mutating func cancel(_ id: WaiterID) -> Waiter? {
        guard let removed = queue.remove(id) else { return nil }
        left(removed)
        return removed.waiter
    }

    /// Rejects a waiter that has waited for too long. Call it until the result is `nil`: at each tick, and before a
    /// connection is released while there are waiters.
    package mutating func expire(now: UInt64) -> ExpiredWaiter<Waiter>? {
        guard let oldest = queue.oldest else { return nil }
        noteQueued(now: now)
        let waited = now > oldest ? now - oldest : 0
        if waited >= limits.congestedTimeout, isCongested(now: now), let removed = queue.popFirst() {
            return expired(removed, .congested)
        }
        if waited >= limits.pendingTimeout, let removed = queue.popFirst() { return expired(removed, .timeout) }
        return queue.removeExpired(now: now).map { expired($0, .deadline) }
    }

    /// The number of waiters that have waited for longer than this duration, in nanoseconds, less those that attempts in
    /// progress are expected to serve.
    package func waitersWithoutPermit(longerThan duration: UInt64, now: UInt64) -> Int {
        guard now > duration, unserved > 0 else { return 0 }
        return max(queue.count(before: now - duration) - expected, 0)
    }

    // MARK: - Used by the events

    func isCongested(now: UInt64) -> Bool {
        guard unserved > 0, let queuedSince, now > queuedSince else { return false }
        return now - queuedSince >= limits.congestedAfter
    }

    /// A waiter has come, or time has passed.
    mutating func noteQueued(now: UInt64) {
        if unserved > 0, queuedSince == nil { queuedSince = now }
    }

    mutating func append(
        _ waiter: Waiter, slot: Int, hasPlace: Bool = false, now: UInt64, deadline: UInt64
    ) -> WaiterID {
        let id = queue.append(waiter, slot: slot, hasPlace: hasPlace, now: now, deadline: deadline)
        table.addWaiter(of: slot)
        noteQueued(now: now)
        return id
    }

    mutating func popWaiter() -> Waiter? {
        guard let removed = queue.popFirst() else { return nil }
        left(removed)
        return removed.waiter
    }

    mutating func left(_ removed: WaitQueue<Waiter>.Removed) {
        if removed.hasPlace { _ = places.giveBack() }
        table.removeWaiter(of: removed.slot)
        noteServed()
    }

    private mutating func expired(_ removed: WaitQueue<Waiter>.Removed, _ reason: QueueExpiry) -> ExpiredWaiter<Waiter>
    {
        left(removed)
        return ExpiredWaiter(waiter: removed.waiter, reason: reason)
    }
}
