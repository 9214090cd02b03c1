import Synchronization

/// A gate that is opened once and then releases all waiters.
package final class Gate: Sendable {
    private struct State {
        var isOpen = false
        var waiting: [@Sendable () -> Void] = []
    }

    private let state = Mutex(State())
    private let arrivals = AsyncStream<Void>.makeStream()

    /// Creates a closed gate.
    package init() {}

    /// Releases all waiters, now and later.
    package func open() {
        let waiting = state.withLock { state in
            state.isOpen = true
            defer { state.waiting = [] }
            return state.waiting
        }
        for resume in waiting { resume() }
    }

    package var isOpen: Bool { state.withLock { $0.isOpen } }

    /// Calls back once it is open.
    package func whenOpen(_ resume: @escaping @Sendable () -> Void) {
        let isOpen = state.withLock { state in
            if !state.isOpen { state.waiting.append(resume) }
            return state.isOpen
        }
        if isOpen { resume() }
    }

    /// Waits until it is open.
    package func passed() async {
        arrivals.continuation.yield()
        await withCheckedContinuation { continuation in
            whenOpen { continuation.resume() }
        }
    }

    /// Waits for a caller of ``passed()``.
    package func waitForArrival() async {
        for await _ in arrivals.stream { return }
    }
}
