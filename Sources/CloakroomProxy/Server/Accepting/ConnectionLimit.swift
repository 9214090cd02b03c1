import CloakroomCore
import NIOCore
import Synchronization

/// Limit of client connections, over all listeners and event loops. At the limit accepting is paused; pending
/// connections wait in the listen queue. While some do, the event loops close idle connections:
/// ``LoopContext/relieveAccepting(now:)``.
///
/// Connections accepted before the limit was noticed are kept, so the count can exceed the limit by a few.
final class ConnectionLimit: Sendable {
    private struct State {
        var count = 0
        var accepted = 0
        var observers: [ObjectIdentifier: Observer] = [:]
    }

    private struct Observer {
        let socket: any Channel
        let changed: @Sendable () -> Void
        /// Connections that waited on the socket when the system was asked.
        var waiting = 0
    }

    /// Number of connections at which accepting pauses.
    let limit: Int
    private let state = Mutex(State())

    init(_ limit: Int) {
        self.limit = limit
    }

    var isFull: Bool { state.withLock { $0.count >= limit } }
    /// Number of open connections.
    var count: Int { state.withLock { $0.count } }
    /// Number of connections accepted since the start.
    var accepted: Int { state.withLock { $0.accepted } }

    /// Number of connections that wait in the listen queues while the limit is reached. The system is asked; the result for
    /// the socket of another event loop is contained in the next call. If it reports none, as many as the limit.
    func waiting() -> Int {
        for (id, observer) in state.withLock({ $0.observers }) {
            ListenQueue.count(of: observer.socket).whenComplete { [self] result in
                let waiting =
                    switch result {
                    case .success(let count): count ?? limit
                    case .failure: 0
                    }
                state.withLock { if $0.count >= limit { $0.observers[id]?.waiting = waiting } }
            }
        }
        return state.withLock { $0.observers.values.reduce(0) { $0 + $1.waiting } }
    }

    /// Registers a listening socket, with a callback, on any thread, for changes of ``isFull``. The value may have changed
    /// again when the callback runs; another callback follows then. Callers that read ``isFull`` in each callback end with
    /// the current value.
    func observe(_ observer: AnyObject, _ socket: any Channel, _ changed: @escaping @Sendable () -> Void) {
        state.withLock { $0.observers[ObjectIdentifier(observer)] = Observer(socket: socket, changed: changed) }
    }

    /// Removes the callback.
    func stopObserving(_ observer: AnyObject) {
        _ = state.withLock { $0.observers.removeValue(forKey: ObjectIdentifier(observer)) }
    }

    /// Counts an accepted connection until it is closed.
    func accepted(_ channel: any Channel) {
        change { state in
            state.accepted += 1
            state.count += 1
        }
        channel.closeFuture.whenComplete { _ in self.change { $0.count -= 1 } }
    }

    private func change(_ body: (inout State) -> Void) {
        let told: [@Sendable () -> Void] = state.withLock { state in
            let wasFull = state.count >= limit
            body(&state)
            guard wasFull != (state.count >= limit) else { return [] }
            for id in state.observers.keys { state.observers[id]?.waiting = 0 }
            return state.observers.values.map(\.changed)
        }
        for changed in told { changed() }
    }
}

/// Limit of connections per client, over all listeners and event loops.
final class PerClientConnectionLimit: Sendable {
    enum Admission {
        /// - Parameter load: The connections and requests in flight of the client; `nil` if they are not counted.
        case admitted(ClientLoad?)
        case rejected
    }

    private let limit: Int
    private let countsRequests: Bool
    private let exempt: [CIDRBlock]
    private let entries = Mutex<[ClientAddressKey: ClientLoad]>([:])

    /// - Parameters:
    ///   - limit: Maximum number per client; 0 means unlimited.
    ///   - countsRequests: Whether the requests in flight of clients are counted.
    ///   - exempt: Addresses that are not counted.
    init(_ limit: Int, countsRequests: Bool = false, exempt: [CIDRBlock]) {
        self.limit = limit
        self.countsRequests = countsRequests
        self.exempt = exempt
    }

    /// Counts a connection until it is closed.
    /// - Parameter address: The client's address. A value that is not an IP address is not counted.
    func admit(_ address: String, until closed: EventLoopFuture<Void>) -> Admission {
        guard limit > 0 || countsRequests, let block = ClientAddressKey(address),
            !exempt.contains(where: { $0.contains(address) })
        else {
            return .admitted(nil)
        }
        let load: ClientLoad? = entries.withLock { entries in
            let load = entries[block] ?? ClientLoad { [weak self] in self?.remove(block) }
            guard limit == 0 || load.connectionCount < limit else { return nil }
            load.addConnections(1)
            entries[block] = load
            return load
        }
        guard let load else { return .rejected }
        closed.whenComplete { _ in self.release(block) }
        return .admitted(load)
    }

    /// Number of clients with connections, or with requests that outlive them.
    var clients: Int { entries.withLock { $0.count } }

    private func release(_ block: ClientAddressKey) {
        entries.withLock { entries in
            entries[block]?.addConnections(-1)
            remove(block, from: &entries)
        }
    }

    private func remove(_ block: ClientAddressKey) { entries.withLock { remove(block, from: &$0) } }

    /// Removes a client that has no connections, and no requests that outlive them.
    private func remove(_ block: ClientAddressKey, from entries: inout [ClientAddressKey: ClientLoad]) {
        if let load = entries[block], load.connectionCount == 0, !load.isDraining { entries[block] = nil }
    }
}
