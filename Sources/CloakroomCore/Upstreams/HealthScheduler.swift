/// When which target is checked, and which results change its state. One per process; used by one task or event loop.
///
/// The first checks of an upstream are spread over its interval or 5 s, whichever is shorter, because the gateway is not
/// ready before they have ended; later ones are jittered by 10 %. While consecutive
/// results differ from the state, checks are at most about 1 second apart.
public struct HealthScheduler: Sendable {
    /// A check that has to be started.
    public struct Check: Sendable, Equatable {
        /// The target.
        public let target: TargetIdentity
        /// Distinguishes the check from others of the same target.
        let number: UInt64
        /// When the check has failed, in nanoseconds of the clock.
        public let deadline: UInt64
    }

    /// What a result changes.
    public enum Change: Sendable, Hashable {
        /// Nothing, or the target was removed meanwhile.
        case unchanged
        case down
        case up
    }

    private struct Entry {
        var configuration: HealthCheckConfiguration
        var isUp: Bool
        /// Whether the first result alone decides.
        var isFirstDecisive: Bool
        var isChecked = false
        /// Consecutive results that differ from `isUp`.
        var contrary = 0
        /// The check that is scheduled or in progress.
        var number: UInt64
        var isInProgress = false
    }

    /// The number of checks at a time beyond which each upstream has at most one: checks that hang do not prevent those of
    /// other upstreams.
    public static let maxConcurrent = 32
    /// Nanoseconds over which the first checks of an upstream are spread at most.
    static let longestFirstRound: UInt64 = 5_000_000_000
    /// Nanoseconds after its deadline until a check without a result is considered lost.
    static let grace: UInt64 = 1_000_000_000

    private var entries: [TargetIdentity: Entry] = [:]
    private var heap = DueHeap()
    private var inProgress = 0
    /// By upstream; those without checks in progress are absent.
    private var inProgressOf: [String: Int] = [:]
    private var lastNumber: UInt64 = 0

    /// No targets.
    public init() {}

    /// Sets the checked targets of an upstream. Those that were checked already keep their state and their time.
    /// - Parameters:
    ///   - down: The targets that are down at the moment; a new one of them needs passed checks. See
    ///     ``TargetSpecification/startsDown``.
    ///   - configuration: `nil` ends the checks of the upstream.
    ///   - isStart: Whether the process or the checks of the upstream begin, so that the first checks are spread; otherwise
    ///     new targets are checked at once.
    public mutating func setTargets(
        _ targets: [TargetIdentity], down: Set<TargetIdentity> = [], upstream: String,
        configuration: HealthCheckConfiguration?, isStart: Bool, now: UInt64
    ) {
        let wanted = configuration == nil ? [] : Set(targets)
        for identity in entries.keys where identity.upstream == upstream && !wanted.contains(identity) {
            remove(identity)
        }
        guard let configuration else { return }
        for (index, identity) in targets.enumerated() {
            let round = min(configuration.interval.wholeNanoseconds, Self.longestFirstRound)
            let share = round / UInt64(targets.count) * UInt64(index)
            if let known = entries[identity] {
                entries[identity]?.configuration = configuration
                // The next check must not be as far away as a longer interval was.
                if known.configuration != configuration, !known.isInProgress { schedule(identity, at: now &+ share) }
                continue
            }
            entries[identity] = Entry(
                configuration: configuration, isUp: !down.contains(identity),
                isFirstDecisive: true, number: 0)
            schedule(identity, at: isStart ? now &+ share : now)
        }
    }

    private mutating func remove(_ identity: TargetIdentity) {
        if entries.removeValue(forKey: identity)?.isInProgress == true { ended(identity) }
    }

    private mutating func began(_ identity: TargetIdentity) {
        inProgress += 1
        inProgressOf[identity.upstream, default: 0] += 1
    }

    private mutating func ended(_ identity: TargetIdentity) {
        inProgress -= 1
        let count = inProgressOf[identity.upstream, default: 1] - 1
        inProgressOf[identity.upstream] = count > 0 ? count : nil
    }

    private mutating func schedule(_ identity: TargetIdentity, at time: UInt64) {
        lastNumber += 1
        entries[identity]?.number = lastNumber
        heap.insert(DueHeap.Item(time: time, number: lastNumber, target: identity))
    }

    /// The checks that have to be started now. Each needs a ``result(_:isPassed:now:random:)``; without one it is lost
    /// 1 second after its deadline, and the next one is started.
    public mutating func due(now: UInt64) -> [Check] {
        var checks: [Check] = []
        var waiting: [DueHeap.Item] = []
        while let item = heap.first, item.time <= now {
            heap.removeFirst()
            // Items of removed targets and of checks that ended are left in the heap until their time.
            guard let entry = entries[item.target], entry.number == item.number else { continue }
            if entry.isInProgress {
                entries[item.target]?.isInProgress = false
                ended(item.target)
            }
            guard inProgress < Self.maxConcurrent || inProgressOf[item.target.upstream] == nil else {
                waiting.append(item)
                continue
            }
            began(item.target)
            let deadline = now &+ entry.configuration.timeout.wholeNanoseconds
            schedule(item.target, at: deadline &+ Self.grace)
            entries[item.target]?.isInProgress = true
            checks.append(Check(target: item.target, number: lastNumber, deadline: deadline))
        }
        for item in waiting { heap.insert(item) }
        return checks
    }

    /// The time of the next call of ``due(now:)``; `nil` if there is no target. If the maximum number of checks is in
    /// progress, it may have passed: then the next result makes room.
    public var nextDue: UInt64? { heap.first?.time }

    /// The number of targets.
    public var count: Int { entries.count }

    /// A check ended.
    /// - Parameter random: Random bits, for the jitter of the next check.
    public mutating func result(_ check: Check, isPassed: Bool, now: UInt64, random: UInt64) -> Change {
        guard var entry = entries[check.target], entry.number == check.number, entry.isInProgress else {
            return .unchanged
        }
        ended(check.target)
        entry.isInProgress = false
        let isDecisive = entry.isFirstDecisive && !entry.isChecked
        entry.isChecked = true
        var change = Change.unchanged
        if isPassed == entry.isUp {
            entry.contrary = 0
        } else {
            entry.contrary += 1
            let limit = isPassed ? entry.configuration.rise : entry.configuration.fall
            if isDecisive || entry.contrary >= limit {
                entry.isUp = isPassed
                entry.contrary = 0
                change = isPassed ? .up : .down
            }
        }
        entries[check.target] = entry
        schedule(check.target, at: now &+ Self.pause(entry.configuration, isPending: entry.contrary > 0, random))
        return change
    }

    /// A check could not be started, and has no result: the next one follows after the interval.
    public mutating func cancelled(_ check: Check, now: UInt64) {
        guard let entry = entries[check.target], entry.number == check.number, entry.isInProgress else { return }
        ended(check.target)
        entries[check.target]?.isInProgress = false
        schedule(check.target, at: now &+ min(entry.configuration.interval.wholeNanoseconds, Self.maxInterval))
    }

    private static let maxInterval: UInt64 = 86_400_000_000_000

    /// Nanoseconds until the next check: the interval, at most 1 second while a change is pending, ± 10 %.
    private static func pause(
        _ configuration: HealthCheckConfiguration, isPending: Bool, _ random: UInt64
    ) -> UInt64 {
        let interval = min(configuration.interval.wholeNanoseconds, maxInterval)
        let base = isPending ? min(interval, 1_000_000_000) : interval
        return base - base / 10 + (base / 5).multipliedFullWidth(by: random).high
    }

    /// Whether every target of an upstream has been checked at least once.
    public func isFirstRoundComplete(upstream: String) -> Bool {
        entries.allSatisfy { $0.key.upstream != upstream || $0.value.isChecked }
    }

    /// Whether the checks consider a target up; `nil` if it is not checked.
    public func isUp(_ target: TargetIdentity) -> Bool? { entries[target]?.isUp }
}

/// A binary heap of due times.
private struct DueHeap: Sendable {
    struct Item: Sendable {
        let time: UInt64
        let number: UInt64
        let target: TargetIdentity
    }

    private var items: [Item] = []

    var first: Item? { items.first }

    mutating func insert(_ item: Item) {
        items.append(item)
        var child = items.count - 1
        while child > 0, items[child].time < items[(child - 1) / 2].time {
            items.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    mutating func removeFirst() {
        guard let last = items.popLast(), !items.isEmpty else { return }
        items[0] = last
        var parent = 0
        while true {
            var smallest = parent
            for child in [2 * parent + 1, 2 * parent + 2]
            where child < items.count && items[child].time < items[smallest].time {
                smallest = child
            }
            if smallest == parent { return }
            items.swapAt(parent, smallest)
            parent = smallest
        }
    }
}
