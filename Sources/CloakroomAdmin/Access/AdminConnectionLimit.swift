import CloakroomCore
import NIOCore
import Synchronization

/// The connections to the admin listener, bounded in total and per client address, and the output that clients have not
/// taken.
///
/// At a limit another connection is closed, not the new one: a client that holds many connections cannot keep probes and
/// scrapers of its own address out. A connection that waits for its response is closed last; of the others, that without
/// progress for the longest time is closed first.
final class AdminConnectionLimit: Sendable {
    /// The maximum number of connections.
    static let total = 128
    /// The maximum number of connections from one address (an IPv4 address or an IPv6 /64).
    static let perAddress = 32
    /// The maximum number of bytes that clients have not taken. One response may be larger.
    static let output = 64 << 20

    /// A connection, identified by its handler.
    struct Connection {
        /// `nil` is an unknown address.
        fileprivate let key: ClientAddressKey?
        fileprivate let handler: NIOLoopBound<AdminConnection>
        fileprivate let closed: EventLoopFuture<Void>
        /// The number of the last progress of all connections.
        fileprivate var progress: UInt64 = 0
        /// Whether a request is complete, and the response has not begun.
        var isServed = false
        /// The number of bytes of the response, until the client has taken all of them.
        var output = 0

        fileprivate func perform(_ action: @escaping @Sendable (AdminConnection) -> Void) {
            handler.eventLoop.execute { action(handler.value) }
        }
    }

    private struct State {
        var connections: [ObjectIdentifier: Connection] = [:]
        var progress: UInt64 = 0
        var isDraining = false

        /// Removes the connection to close first.
        mutating func evict(where isCandidate: (ObjectIdentifier, Connection) -> Bool) -> Connection? {
            let first = connections.filter(isCandidate).min {
                ($0.value.isServed ? 1 : 0, $0.value.progress) < ($1.value.isServed ? 1 : 0, $1.value.progress)
            }
            return first.flatMap { connections.removeValue(forKey: $0.key) }
        }
    }

    private let state = Mutex(State())

    /// Adds a connection, and closes another one if there are too many: at the total limit, one of the address with the
    /// most connections.
    /// - Parameter closed: The end of the connection.
    /// - Returns: Whether another one was closed.
    func open(_ handler: NIOLoopBound<AdminConnection>, peer: String, closed: EventLoopFuture<Void>) -> Bool {
        let key = ClientAddressKey(peer)
        let id = ObjectIdentifier(handler.value)
        var connection = Connection(key: key, handler: handler, closed: closed)
        let (evicted, isDraining): (Connection?, Bool) = state.withLock { state in
            var counts: [ClientAddressKey?: Int] = [:]
            for connection in state.connections.values { counts[connection.key, default: 0] += 1 }
            var evicted: Connection?
            if counts[key, default: 0] >= Self.perAddress {
                evicted = state.evict { $1.key == key }
            } else if state.connections.count >= Self.total {
                let most = counts.values.max()
                evicted = state.evict { counts[$1.key] == most }
            }
            state.progress += 1
            connection.progress = state.progress
            state.connections[id] = connection
            return (evicted, state.isDraining)
        }
        evicted?.perform { $0.cut() }
        if isDraining { connection.perform { $0.finish() } }
        return evicted != nil
    }

    /// Notes progress of a connection. If there is too much output, closes others that have some.
    func update(_ id: ObjectIdentifier, _ change: (inout Connection) -> Void = { _ in }) {
        let evicted: [Connection] = state.withLock { state in
            guard var connection = state.connections[id] else { return [] }
            let output = connection.output
            change(&connection)
            state.progress += 1
            connection.progress = state.progress
            state.connections[id] = connection
            guard connection.output > output else { return [] }
            var evicted: [Connection] = []
            while state.connections.values.reduce(0, { $0 + $1.output }) > Self.output,
                let other = state.evict(where: { $0 != id && $1.output > 0 })
            {
                evicted.append(other)
            }
            return evicted
        }
        for connection in evicted { connection.perform { $0.cut() } }
    }

    func close(_ id: ObjectIdentifier) {
        _ = state.withLock { $0.connections.removeValue(forKey: id) }
    }

    /// Ends all connections, those that serve a request after its response, and waits for their end. Later ones end at
    /// once.
    func drain() async {
        let connections = state.withLock { state in
            state.isDraining = true
            return state.connections.values
        }
        for connection in connections { connection.perform { $0.finish() } }
        for connection in connections { try? await connection.closed.get() }
    }

    /// Closes all connections at once.
    func cut() {
        for connection in state.withLock({ $0.connections.values }) { connection.perform { $0.cut() } }
    }
}
