import DequeModule

/// Which connection of one event loop to one upstream serves which exchange.
///
/// Connections and waiters are whatever the caller makes of them; the machine only keeps them in order: the connection
/// used last is used first, and who waited longest is served first.
struct UpstreamPoolStateMachine<Connection: Equatable, Waiter: Equatable> {
    private let capacity: Int
    private let maxWaiting: Int
    private(set) var idle: [Connection] = []
    private(set) var waiting = Deque<Waiter>()
    private(set) var leased = 0
    private(set) var connecting = 0

    /// - Parameters:
    ///   - capacity: The most connections at a time, those that are being made included; at least 1.
    ///   - maxWaiting: The most waiters at a time.
    init(capacity: Int, maxWaiting: Int) {
        self.capacity = max(capacity, 1)
        self.maxWaiting = max(maxWaiting, 0)
    }

    enum LeaseAction: Equatable {
        /// Here is one.
        case use(Connection)
        /// Wait; and make a connection meanwhile.
        case waitAndConnect
        /// Wait for one to become free.
        case wait
        /// Too many are waiting.
        case reject
    }

    /// Somebody wants a connection.
    /// - Parameter isFresh: Whether it must be a new one, because an idle one has just turned out to be dead.
    mutating func lease(_ waiter: Waiter, isFresh: Bool = false) -> LeaseAction {
        if !isFresh, let connection = idle.popLast() {
            leased += 1
            return .use(connection)
        }
        let canConnect = leased + connecting < capacity
        // Those for whom a connection is being made do not crowd out others.
        guard canConnect || waiting.count - connecting < maxWaiting else { return .reject }
        waiting.append(waiter)
        guard canConnect else { return .wait }
        connecting += 1
        return .waitAndConnect
    }

    enum AvailabilityAction: Equatable {
        /// It goes to who waited longest.
        case handOver(Connection, to: Waiter)
        /// It is kept for later.
        case keep(Connection)
    }

    /// A new connection stands.
    mutating func connected(_ connection: Connection) -> AvailabilityAction {
        connecting = max(connecting - 1, 0)
        return available(connection)
    }

    enum ConnectFailedAction: Equatable {
        /// Who waited longest has to be told.
        case fail(Waiter)
        /// Nobody waits any more.
        case nothing
    }

    /// A connection could not be made.
    mutating func connectFailed() -> ConnectFailedAction {
        connecting = max(connecting - 1, 0)
        guard let waiter = waiting.popFirst() else { return .nothing }
        return .fail(waiter)
    }

    /// A leased connection came back and can be used again.
    mutating func release(_ connection: Connection) -> AvailabilityAction {
        leased = max(leased - 1, 0)
        return available(connection)
    }

    /// A leased connection came back and is of no more use.
    /// - Returns: Whether to make a connection, because somebody waits for one.
    mutating func discardLeased() -> Bool {
        leased = max(leased - 1, 0)
        return connectIfNeeded()
    }

    /// An idle connection was closed.
    mutating func discardIdle(_ connection: Connection) {
        idle.removeAll { $0 == connection }
    }

    /// Somebody does not want to wait any longer.
    mutating func cancel(_ waiter: Waiter) {
        if let index = waiting.firstIndex(of: waiter) { waiting.remove(at: index) }
    }

    /// Takes out all idle connections, to close them.
    mutating func takeIdle() -> [Connection] {
        defer { idle = [] }
        return idle
    }

    /// After a failed dial: others may wait for whom no connection is being made.
    mutating func connectIfNeeded() -> Bool {
        guard waiting.count > connecting, leased + connecting < capacity else { return false }
        connecting += 1
        return true
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
