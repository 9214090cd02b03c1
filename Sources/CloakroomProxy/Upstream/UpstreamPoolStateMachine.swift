import DequeModule

/// Assigns the connections of one event loop to one upstream to exchanges.
///
/// Connections and waiters are opaque to the state machine. Connections are reused last-in first-out, waiters are
/// served first-in first-out. An event that is not possible is a defect of the caller: an assertion in debug builds, and
/// ignored otherwise.
struct UpstreamPoolStateMachine<Connection: Equatable, Waiter: Equatable> {
    private let capacity: Int
    private let maxWaiting: Int
    private(set) var idle: [Connection] = []
    private(set) var waiting = Deque<Waiter>()
    private(set) var leased = 0
    private(set) var connecting = 0

    /// - Parameters:
    ///   - capacity: Maximum number of connections, including those being established; at least 1.
    ///   - maxWaiting: Maximum number of waiters.
    init(capacity: Int, maxWaiting: Int) {
        self.capacity = max(capacity, 1)
        self.maxWaiting = max(maxWaiting, 0)
    }

    enum LeaseAction: Equatable {
        /// Use an idle connection.
        case use(Connection)
        /// Wait, and start a connection attempt.
        case waitAndConnect
        /// Wait until a connection becomes available.
        case wait
        /// The queue is full.
        case reject
    }

    /// Requests a connection.
    /// - Parameter isFresh: Whether it must be a new one, because an idle one was just found closed.
    mutating func lease(_ waiter: Waiter, isFresh: Bool = false) -> LeaseAction {
        if !isFresh, let connection = idle.popLast() {
            leased += 1
            return .use(connection)
        }
        let canConnect = leased + connecting < capacity
        // Waiters with a connection attempt in progress do not count against the queue limit.
        guard canConnect || waiting.count - connecting < maxWaiting else { return .reject }
        waiting.append(waiter)
        guard canConnect else { return .wait }
        connecting += 1
        return .waitAndConnect
    }

    enum AvailabilityAction: Equatable {
        /// Assign it to the waiter that has waited longest.
        case handOver(Connection, to: Waiter)
        /// Keep it as idle.
        case keep(Connection)
    }

    /// A new connection was established.
    mutating func connected(_ connection: Connection) -> AvailabilityAction {
        Self.remove(from: &connecting)
        return available(connection)
    }

    enum ConnectFailedAction: Equatable {
        /// Fail the waiter that has waited longest.
        case fail(Waiter)
        /// All waiters have been served or have left.
        case noWaiter
    }

    /// A connection attempt failed.
    mutating func connectFailed() -> ConnectFailedAction {
        Self.remove(from: &connecting)
        guard let waiter = waiting.popFirst() else { return .noWaiter }
        return .fail(waiter)
    }

    /// A leased connection was returned and is reusable.
    mutating func release(_ connection: Connection) -> AvailabilityAction {
        Self.remove(from: &leased)
        return available(connection)
    }

    /// A leased connection was returned and is not reusable.
    /// - Returns: Whether to start a connection attempt for a waiter.
    mutating func discardLeased() -> Bool {
        Self.remove(from: &leased)
        return connectIfNeeded()
    }

    /// An idle connection was closed.
    mutating func discardIdle(_ connection: Connection) {
        guard let index = idle.firstIndex(of: connection) else {
            return assertionFailure("The connection is not idle")
        }
        idle.remove(at: index)
    }

    /// A waiter no longer needs a connection.
    mutating func cancel(_ waiter: Waiter) {
        guard let index = waiting.firstIndex(of: waiter) else { return assertionFailure("Not a waiter") }
        waiting.remove(at: index)
    }

    /// Removes and returns all idle connections, to close them.
    mutating func takeIdle() -> [Connection] {
        defer { idle = [] }
        return idle
    }

    /// Called after a failed attempt: there may be waiters without a connection attempt.
    mutating func connectIfNeeded() -> Bool {
        guard waiting.count > connecting, leased + connecting < capacity else { return false }
        connecting += 1
        return true
    }

    private static func remove(from count: inout Int) {
        assert(count > 0, "There is no such connection")
        if count > 0 { count -= 1 }
    }

    private mutating func available(_ connection: Connection) -> AvailabilityAction {
        if let waiter = waiting.popFirst() {
            leased += 1
            return .handOver(connection, to: waiter)
        }
        idle.append(connection)
        return .keep(connection)
    }
}
