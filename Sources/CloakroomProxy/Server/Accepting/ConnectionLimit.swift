import CloakroomCore
import NIOCore
import Synchronization

/// Limit of client connections, over all listeners and event loops. At the limit accepting is paused; pending
/// connections wait in the listen queue.
///
/// Connections accepted before the limit was noticed are kept, so the count can exceed the limit by a few.
final class ConnectionLimit: Sendable {
    private struct State {
        var count = 0
        var accepted = 0
        var observers: [ObjectIdentifier: @Sendable () -> Void] = [:]
    }

    private let limit: Int
    private let state = Mutex(State())

    init(_ limit: Int) {
        self.limit = limit
    }

    /// Whether the limit is reached.
    var isFull: Bool { state.withLock { $0.count >= limit } }
    /// Number of open connections.
    var count: Int { state.withLock { $0.count } }
    /// Number of connections accepted since the start.
    var accepted: Int { state.withLock { $0.accepted } }

    /// Registers a callback, on any thread, for changes of ``isFull``. The value may have changed again when the
    /// callback runs; another callback follows then. Callers that read ``isFull`` in each callback end with the current
    /// value.
    func observe(_ observer: AnyObject, _ changed: @escaping @Sendable () -> Void) {
        state.withLock { $0.observers[ObjectIdentifier(observer)] = changed }
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
        let told = state.withLock { state in
            let wasFull = state.count >= limit
            body(&state)
            return wasFull == (state.count >= limit) ? [] : Array(state.observers.values)
        }
        for changed in told { changed() }
    }
}

/// Limit of connections per client, over all listeners and event loops.
final class PerClientConnectionLimit: Sendable {
    private let limit: Int
    private let exempt: [CIDRBlock]
    private let counts = Mutex<[ClientAddressKey: Int]>([:])

    /// - Parameters:
    ///   - limit: Maximum number per client; 0 means unlimited.
    ///   - exempt: Addresses without a limit.
    init(_ limit: Int, exempt: [CIDRBlock]) {
        self.limit = limit
        self.exempt = exempt
    }

    /// Counts a connection until it is closed.
    /// - Parameter address: The client's address. A value that is not an IP address is not counted.
    /// - Returns: Whether the limit allows the connection.
    func acquire(_ address: String, until closed: EventLoopFuture<Void>) -> Bool {
        guard limit > 0, let block = ClientAddressKey(address), !exempt.contains(where: { $0.contains(address) }) else {
            return true
        }
        let hasEntered = counts.withLock { counts in
            guard counts[block, default: 0] < limit else { return false }
            counts[block, default: 0] += 1
            return true
        }
        if hasEntered { closed.whenComplete { _ in self.release(block) } }
        return hasEntered
    }

    /// Number of clients with connections.
    var clients: Int { counts.withLock { $0.count } }

    private func release(_ block: ClientAddressKey) {
        counts.withLock { counts in
            guard let count = counts[block] else { return }
            counts[block] = count > 1 ? count - 1 : nil
        }
    }
}
