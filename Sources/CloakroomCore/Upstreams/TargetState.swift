import Synchronization

/// What all event loops share about one target: its word, its load, and its estimated latency.
///
/// All accesses are relaxed atomics: each value is used by itself, and a lost update of the estimate has no effect beyond
/// one measurement. The counters of a request are changed at the same object at its start and its end, also if tables
/// are replaced meanwhile. Times are nanoseconds of one monotonic clock; the caches of event loops may differ by
/// milliseconds, in either direction.
public final class TargetState: Sendable {
    /// Which target.
    public let identity: TargetIdentity
    /// A number below 65,535 that no other target with a living state has, among those of the same upstream.
    public let slot: Int
    private let slots: TargetSlots

    // The atomics have cache lines of their own, so that targets do not slow each other down.
    private let paddingBefore = InlineArray<8, UInt64>(repeating: 0)
    let wordBits = Atomic<UInt64>(0)
    /// All requests in flight << 32 | those that wait for a response head.
    let load = Atomic<UInt64>(0)
    /// Milliseconds of the last measurement << 32 | microseconds until a response head; 0 if unknown.
    let estimate = Atomic<UInt64>(0)
    /// ``EstimateRules`` in packed form.
    let rules = Atomic<UInt64>(EstimateRules().packed)
    /// Milliseconds of the last response head, or of the first request after all had one.
    let progress = Atomic<UInt32>(0)
    /// Consecutive failures.
    let inRow = Atomic<UInt32>(0)
    /// When the slow start began, in milliseconds; 0 without one.
    let warmSince = Atomic<UInt32>(0)
    /// Milliseconds since when it is not usable.
    let unusableSince = Atomic<UInt32>(0)
    private let succeeded = Atomic<UInt64>(0)
    private let failures = Atomic<UInt64>(0)
    private let paddingAfter = InlineArray<8, UInt64>(repeating: 0)

    init(_ identity: TargetIdentity, slots: TargetSlots) {
        self.identity = identity
        self.slots = slots
        slot = slots.take()
    }

    deinit {
        if !word.isUsable { slots.unusable.wrappingSubtract(1, ordering: .relaxed) }
        slots.giveBack(slot)
    }

    // MARK: - Requests

    /// A request was assigned to the target; its connection may not be established yet.
    /// - Parameter isTimed: Whether it is expected to get a response head soon; see `Route.timed`.
    @inline(__always)
    public func started(now: UInt64, isTimed: Bool = true) {
        let old = load.wrappingAdd(isTimed ? 1 << 32 | 1 : 1 << 32, ordering: .relaxed).oldValue
        if isTimed, old & 0xffff_ffff == 0 {
            progress.store(MonotonicMilliseconds(now).rawValue, ordering: .relaxed)
        }
    }

    /// A response head arrived that is not a failure.
    /// - Parameters:
    ///   - duration: Nanoseconds since the request was sent.
    ///   - isTimed: Whether the duration is a measurement of the target.
    /// - Returns: Whether the circuit is not closed: then the board has to be notified by
    ///   ``UpstreamBoard/requestSucceeded(_:startedAt:now:)``.
    @discardableResult
    public func headReceived(after duration: UInt64, now: UInt64, isTimed: Bool = true) -> Bool {
        let time = MonotonicMilliseconds(now)
        progress.store(time.rawValue, ordering: .relaxed)
        if isTimed { observe(Self.microseconds(duration), at: time) }
        if inRow.load(ordering: .relaxed) != 0 { inRow.store(0, ordering: .relaxed) }
        return wordBits.load(ordering: .relaxed) & TargetWord.circuitMask != 0
    }

    /// A request failed: no connection, no head in time, or a response that counts as a failure.
    /// - Parameter duration: Nanoseconds since the request was sent, or since it was assigned if it was not sent.
    /// - Returns: The number of consecutive failures, including this one.
    public func failed(after duration: UInt64, now: UInt64) -> Int {
        let penalty = EstimateRules(packed: rules.load(ordering: .relaxed)).penalty
        observe(max(Self.microseconds(duration), penalty), at: MonotonicMilliseconds(now))
        return Int(inRow.wrappingAdd(1, ordering: .relaxed).newValue)
    }

    /// The client left before the response head. Counts only if it waited longer than the estimate: clients that leave
    /// early would hide a slow target.
    /// - Parameter duration: Nanoseconds since the request was sent.
    public func cancelled(after duration: UInt64, now: UInt64) {
        raise(to: Self.microseconds(duration), at: MonotonicMilliseconds(now))
    }

    /// The target asked for fewer requests: status 429, or status 8 of gRPC. Has the effect of the failure penalty. A
    /// `Retry-After` has none: it applies to the client that caused it, not to the others.
    public func throttled(now: UInt64) {
        let penalty = EstimateRules(packed: rules.load(ordering: .relaxed)).penalty
        raise(to: penalty, at: MonotonicMilliseconds(now))
    }

    /// The request no longer waits for a response head, but the response is not complete.
    public func noLongerOwesHead() {
        subtract(1)
    }

    /// The request ended, in whichever way.
    /// - Parameter owesHead: Whether it was started as timed and ``noLongerOwesHead()`` was not called.
    public func ended(owesHead: Bool) {
        subtract(owesHead ? 1 << 32 | 1 : 1 << 32)
    }

    /// Requests in flight.
    public var inFlight: Int { Int(load.load(ordering: .relaxed) >> 32) }
    /// Requests that wait for a response head.
    var owingHeads: Int { Int(load.load(ordering: .relaxed) & 0xffff_ffff) }

    @inline(__always)
    private func subtract(_ part: UInt64) {
        let old = load.wrappingSubtract(part, ordering: .relaxed).oldValue
        // A second end of a request is a defect; without this, the target would never be selected again.
        if old >> 32 < part >> 32 || old & 0xffff_ffff < part & 0xffff_ffff { repair(old, part) }
    }

    @inline(never)
    private func repair(_ old: UInt64, _ part: UInt64) {
        load.wrappingAdd(part, ordering: .relaxed)
        if part >> 32 != 0, old >> 32 != 0 { load.wrappingSubtract(1 << 32, ordering: .relaxed) }
    }

    // MARK: - Outcomes of a period

    /// Adds the outcomes that an event loop counted since its last tick.
    public func count(succeeded ok: Int, failed: Int) {
        if ok > 0 { succeeded.wrappingAdd(UInt64(ok), ordering: .relaxed) }
        if failed > 0 { failures.wrappingAdd(UInt64(failed), ordering: .relaxed) }
    }

    /// The outcomes since the last call.
    func takeOutcomes() -> (succeeded: UInt64, failed: UInt64) {
        (succeeded.exchange(0, ordering: .relaxed), failures.exchange(0, ordering: .relaxed))
    }

    // MARK: - Word

    /// The current word.
    public var word: TargetWord { TargetWord(rawValue: wordBits.load(ordering: .relaxed)) }

    /// Applies an event to the word, unless another thread applied one that makes it ineffective.
    /// - Returns: The words before and after.
    @discardableResult
    func apply(_ event: TargetEvent, now: UInt64) -> (before: TargetWord, after: TargetWord) {
        var old = wordBits.load(ordering: .relaxed)
        while true {
            let before = TargetWord(rawValue: old)
            let after = before.after(event, now: now)
            if before == after { return (before, after) }
            let (exchanged, original) = wordBits.compareExchange(
                expected: old, desired: after.rawValue, ordering: .relaxed)
            if exchanged {
                usabilityChanged(from: before.isUsable, to: after.isUsable, now: now)
                return (before, after)
            }
            old = original
        }
    }

    /// Claims the probe of a circuit that is not closed.
    /// - Parameter time: Nanoseconds that the probe has.
    /// - Returns: Whether this call claimed it.
    func claimProbe(time: UInt64, now: UInt64) -> Bool {
        let old = word
        guard old.canProbe(now: now) else { return false }
        let new = old.after(.probeStarted(time: time), now: now)
        return wordBits.compareExchange(expected: old.rawValue, desired: new.rawValue, ordering: .relaxed).exchanged
    }

    private func usabilityChanged(from wasUsable: Bool, to isUsable: Bool, now: UInt64) {
        guard wasUsable != isUsable else { return }
        slots.unusable.wrappingAdd(isUsable ? -1 : 1, ordering: .relaxed)
        let now = MonotonicMilliseconds(now)
        guard isUsable else { return unusableSince.store(now.rawValue, ordering: .relaxed) }
        let since = MonotonicMilliseconds(rawValue: unusableSince.load(ordering: .relaxed))
        if since.elapsed(until: now) >= Self.coolingTime { startWarming(at: now) }
    }

    /// Milliseconds without requests after which a target starts slowly.
    static let coolingTime: Int32 = 10_000
}

/// Numbers for the targets of an upstream. A number is used again when the last reference to the state that has it is
/// released, so that event loops can use it as an index.
final class TargetSlots: Sendable {
    private let used = Mutex<[Bool]>([])
    /// The number of living states that are not usable.
    let unusable = Atomic<Int>(0)

    func take() -> Int {
        used.withLock { used in
            if let free = used.firstIndex(of: false) {
                used[free] = true
                return free
            }
            used.append(true)
            return used.count - 1
        }
    }

    func giveBack(_ slot: Int) {
        used.withLock { used in
            if used.indices.contains(slot) { used[slot] = false }
        }
    }
}
