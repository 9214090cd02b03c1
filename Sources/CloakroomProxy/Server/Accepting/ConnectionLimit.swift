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
