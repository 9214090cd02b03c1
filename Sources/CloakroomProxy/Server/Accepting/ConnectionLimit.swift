import NIOCore
import Synchronization

/// The bound on connections from clients, over all listeners and event loops. At the bound nobody is turned away: no
/// more is accepted until there is room, and who comes meanwhile waits in the system's queue.
///
/// What was accepted before the bound was noticed is kept, so that the count can be a few above it.
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

    /// Whether no more may be accepted at the moment.
    var isFull: Bool { state.withLock { $0.count >= limit } }
    /// How many connections there are.
    var count: Int { state.withLock { $0.count } }
    /// How many connections have been accepted since the start.
    var accepted: Int { state.withLock { $0.accepted } }

    /// Calls back, on any thread, whenever ``isFull`` has changed. It may have changed again by then, which is another
    /// call: who asks ``isFull`` each time ends up with what is true.
    func observe(_ observer: AnyObject, _ changed: @escaping @Sendable () -> Void) {
        state.withLock { $0.observers[ObjectIdentifier(observer)] = changed }
    }

    /// Calls back no more.
    func stopObserving(_ observer: AnyObject) {
        _ = state.withLock { $0.observers.removeValue(forKey: ObjectIdentifier(observer)) }
    }

    /// A connection was accepted. It counts until it is closed.
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
