import CloakroomCore
import Synchronization

/// The attempts of this process whose credentials are being checked, by the keys that count failures, and attempts that
/// wait for their results.
///
/// An attempt counts as a failure until it succeeds. So an attempt that the throttle delays may only be one of many with
/// right passwords. If other attempts are undecided under all keys that delay it, it waits, and is counted when one of
/// them did not fail. It is never sent to the upstream without being counted: the throttle permits no more guesses.
///
/// Each attempt that did not fail resumes one that waits, in the order in which they began to wait. If no attempt under a
/// key is undecided any more, all that wait for it are counted once more, or delayed. So a counted attempt costs one call
/// of the store, and each resumption one more, however many attempts are concurrent.
package final class UndecidedAttempts: Sendable {
    /// The maximum number of attempts that wait for one address. They hold passwords.
    static let maxWaitingOfAddress = 64
    /// The maximum number of attempts that wait for one IPv6 /48.
    static let maxWaitingOfNetwork = 256
    static let maxWaiting = 1_024
    /// The maximum number of attempts that are observed. Further ones are counted and never wait.
    static let maxAttempts = 16_384
    /// The maximum time that an attempt waits.
    static let maxWait = Duration.seconds(5)

    /// An attempt that is to be counted now.
    struct Turn: Sendable {
        fileprivate(set) var keys: [ThrottleKey]
        /// The key under which another attempt did not fail; `nil` for an attempt that did not wait.
        fileprivate var resumedBy: ThrottleKey?
        /// Whether the attempt may not wait any more.
        fileprivate var isLast = false

        var hasWaited: Bool { resumedBy != nil || isLast }
    }

    private let state = Mutex(State())
    private let sleep: @Sendable (Duration) async throws -> Void

    /// - Parameter sleep: Waits for a duration; throws when its task is cancelled.
    package init(sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }) {
        self.sleep = sleep
    }

    var waitingCount: Int { state.withLock { $0.waiting } }
    var keyCount: Int { state.withLock { $0.entries.count } }

    /// Begins an attempt. It waits behind those that wait already for one of its keys.
    /// - Parameter keys: Those of one address that count failures.
    func begin(_ keys: [ThrottleKey]) async -> Turn {
        if let turn = state.withLock({ $0.begin(keys) }) { return turn }
        let turn = await wait(for: Self.maxWait, keys) { state in
            guard let turn = state.begin(keys) else { return .wait(for: state.busyKey(of: keys), isFirst: false) }
            return .proceed(turn)
        }
        return turn ?? Turn(keys: [])
    }

    /// An attempt was counted, or the store has failed.
    func counted(_ turn: Turn) {
        update { state in
            for key in turn.keys {
                state.entries[key]?.counting -= 1
                state.settle(key)
            }
        }
    }

    /// The throttle delays an attempt.
    /// - Parameters:
    ///   - blocking: The keys that delay it.
    ///   - elapsed: The time since the attempt has begun.
    /// - Returns: A turn to count it again; `nil` if it is rejected.
    func delayed(_ turn: Turn, by blocking: [ThrottleKey], elapsed: Duration) async -> Turn? {
        await wait(for: Self.maxWait - elapsed, turn.keys) { state in
            // It did not need what the other attempt has released.
            if let key = turn.resumedBy, !blocking.contains(key) { state.entries[key]?.released += 1 }
            state.leave(turn.keys, isCounted: false)
            guard !turn.isLast, elapsed < Self.maxWait, state.hasRoom(for: turn.keys),
                // Or one was released while this attempt was being counted: then it is resumed at once.
                blocking.allSatisfy({ key in
                    turn.keys.contains(key)
                        && state.entries[key].map { $0.undecided > 0 || $0.released > 0 } ?? false
                })
            else { return .proceed(nil) }
            return .wait(for: blocking.first, isFirst: turn.resumedBy == blocking.first)
        }
    }

    /// A counted attempt has a result.
    /// - Parameter isReleased: Whether the store does not count the attempt any more.
    func decided(_ keys: [ThrottleKey], isReleased: Bool) {
        update { state in
            // First, so that an attempt that is resumed keeps the others waiting.
            for key in keys where isReleased {
                state.entries[key]?.released += 1
                state.resumeNext(key)
            }
            state.leave(keys, isCounted: true)
            for key in keys { state.settle(key) }
        }
    }

    private enum Step {
        case proceed(Turn?)
        /// Rejects the attempt without a key.
        case wait(for: ThrottleKey?, isFirst: Bool)
    }

    private func wait(for time: Duration, _ keys: [ThrottleKey], _ step: (inout State) -> Step) async -> Turn? {
        var timer: Task<Void, Never>?
        let turn: Turn? = await withCheckedContinuation { continuation in
            let place: (id: UInt64, key: ThrottleKey)? = update { state in
                // Afterwards: what was released meanwhile resumes this attempt too.
                defer { for key in keys { state.settle(key) } }
                switch step(&state) {
                case .wait(let key?, let isFirst):
                    return (state.enqueue(keys, continuation, for: key, isFirst: isFirst), key)
                case .proceed(let turn): state.resumed.append((continuation, turn))
                case .wait(nil, _): state.resumed.append((continuation, nil))
                }
                return nil
            }
            guard let place else { return }
            timer = Task { [self] in
                guard (try? await sleep(time)) != nil else { return }
                update { $0.expire(place.id, of: place.key) }
            }
        }
        timer?.cancel()
        return turn
    }

    @discardableResult
    private func update<Result: Sendable>(_ body: (inout State) -> Result) -> Result {
        let (result, resumed) = state.withLock { state in
            let result = body(&state)
            let resumed = state.resumed
            state.resumed = []
            return (result, resumed)
        }
        for (continuation, turn) in resumed { continuation.resume(returning: turn) }
        return result
    }

    private struct Waiter {
        let id: UInt64
        let keys: [ThrottleKey]
        let continuation: CheckedContinuation<Turn?, Never>
    }

    private struct Entry {
        /// Attempts that are being counted, or were counted and are not decided.
        var undecided = 0
        /// Those of them that are being counted.
        var counting = 0
        /// Attempts that did not fail and for which none was resumed, because those that would wait are being counted.
        var released = 0
        var waiters: [Waiter] = []
        /// Attempts with this key that wait, for any key.
        var waiting = 0

        mutating func begin() {
            undecided += 1
            counting += 1
        }
    }

    private struct State {
        var entries: [ThrottleKey: Entry] = [:]
        var attempts = 0
        var waiting = 0
        /// To be resumed after the lock is released.
        var resumed: [(CheckedContinuation<Turn?, Never>, Turn?)] = []
        private var nextID: UInt64 = 0

        /// - Returns: `nil` if the attempt has to wait.
        mutating func begin(_ keys: [ThrottleKey]) -> Turn? {
            guard attempts < UndecidedAttempts.maxAttempts else { return Turn(keys: []) }
            if busyKey(of: keys) != nil, hasRoom(for: keys) { return nil }
            activate(keys)
            return Turn(keys: keys)
        }

        /// The first key for which attempts wait.
        func busyKey(of keys: [ThrottleKey]) -> ThrottleKey? {
            keys.first { entries[$0]?.waiters.isEmpty == false }
        }

        func hasRoom(for keys: [ThrottleKey]) -> Bool {
            func waiting(_ scope: ThrottleKey.Scope) -> Int? {
                keys.first { $0.scope == scope }.map { entries[$0]?.waiting ?? 0 }
            }
            guard let ofAddress = waiting(.address) else { return false }
            return self.waiting < UndecidedAttempts.maxWaiting
                && ofAddress < UndecidedAttempts.maxWaitingOfAddress
                && waiting(.network) ?? 0 < UndecidedAttempts.maxWaitingOfNetwork
        }

        private mutating func activate(_ keys: [ThrottleKey]) {
            attempts += 1
            for key in keys { entries[key, default: Entry()].begin() }
        }

        mutating func leave(_ keys: [ThrottleKey], isCounted: Bool) {
            guard !keys.isEmpty else { return }
            attempts -= 1
            for key in keys {
                entries[key]?.undecided -= 1
                if !isCounted { entries[key]?.counting -= 1 }
            }
        }

        mutating func enqueue(
            _ keys: [ThrottleKey], _ continuation: CheckedContinuation<Turn?, Never>, for key: ThrottleKey,
            isFirst: Bool
        ) -> UInt64 {
            nextID += 1
            waiting += 1
            for key in keys { entries[key, default: Entry()].waiting += 1 }
            let waiter = Waiter(id: nextID, keys: keys, continuation: continuation)
            let last = entries[key]?.waiters.count ?? 0
            entries[key]?.waiters.insert(waiter, at: isFirst ? 0 : last)
            return nextID
        }

        /// Resumes the attempts for which others were released.
        mutating func resumeNext(_ key: ThrottleKey) {
            while let entry = entries[key], entry.released > 0, !entry.waiters.isEmpty {
                entries[key]?.released -= 1
                resume(0, of: key, by: key)
            }
        }

        mutating func settle(_ key: ThrottleKey) {
            resumeNext(key)
            guard let entry = entries[key] else { return }
            if entry.released > entry.counting { entries[key]?.released = entry.counting }
            guard entry.undecided == 0 else { return }
            for _ in entry.waiters { resume(0, of: key, by: nil) }
            if entry.waiting == 0 { entries[key] = nil }
        }

        mutating func expire(_ id: UInt64, of key: ThrottleKey) {
            guard let index = entries[key]?.waiters.firstIndex(where: { $0.id == id }) else { return }
            resume(index, of: key, by: nil)
        }

        private mutating func resume(_ index: Int, of key: ThrottleKey, by released: ThrottleKey?) {
            guard let waiter = entries[key]?.waiters.remove(at: index) else { return }
            waiting -= 1
            for key in waiter.keys { entries[key]?.waiting -= 1 }
            activate(waiter.keys)
            resumed.append(
                (waiter.continuation, Turn(keys: waiter.keys, resumedBy: released, isLast: released == nil)))
        }
    }
}
