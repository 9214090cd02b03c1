import Synchronization

/// A gate that is opened once and then releases all waiters.
final class Gate: Sendable {
    private struct State {
        var isOpen = false
        var waiting: [@Sendable () -> Void] = []
    }

    private let state = Mutex(State())

    /// Releases all waiters, now and later.
    func open() {
        let waiting = state.withLock { state in
            state.isOpen = true
            defer { state.waiting = [] }
            return state.waiting
        }
        for resume in waiting { resume() }
    }

    /// Whether it was opened.
    var isOpen: Bool { state.withLock { $0.isOpen } }

    /// Calls back once it is open.
    func whenOpen(_ resume: @escaping @Sendable () -> Void) {
        let isOpen = state.withLock { state in
            if !state.isOpen { state.waiting.append(resume) }
            return state.isOpen
        }
        if isOpen { resume() }
    }

    /// Waits until it is open.
    func passed() async {
        await withCheckedContinuation { continuation in
            whenOpen { continuation.resume() }
        }
    }
}
