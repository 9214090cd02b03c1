import Synchronization

/// A target as an entry of a ``TargetTable``.
public struct TargetEntry: Sendable {
    /// What event loops share about it.
    public let state: TargetState
    /// The weight, 0...1000; 0 is never selected.
    public let weight: Int
    /// The tier, 0...9.
    public let tier: Int
    /// Whether it is in another zone than the gateway.
    public let isOtherZone: Bool
    /// The index of the target in the configuration, which several addresses of one name share.
    public let configurationIndex: Int
}

/// The targets of one upstream at a time. Immutable: a change of the configuration or of DNS makes a new table, which
/// shares the states of the targets that it keeps.
///
/// Targets are named by their index in ``entries``. The entries are sorted by tier, then by weight, heaviest first; those
/// with weight 0 are last.
public final class TargetTable: Sendable {
    /// The targets that can be selected in one tier: a range of entries and a range of classes.
    struct Tier {
        let entries: Range<Int>
        let classes: Range<Int>
    }

    /// The entries of one tier with the same weight.
    struct WeightClass {
        let entries: Range<Int>
        /// The weight of each.
        let weight: Int
        /// The weight of all classes of the tier up to this one.
        let cumulativeWeight: Int
        /// Whether it has at least 10 % of the weight of the tier, so that a request for a class that is much slower may be
        /// sent to it.
        let isLarge: Bool
    }

    /// All targets, at most ``maxCount``.
    public let entries: [TargetEntry]
    /// The states of ``entries``, which keep them alive.
    private let states: [Unmanaged<TargetState>]
    /// For each entry 1 in another zone, otherwise 0: the binary logarithm of the factor of the cost.
    let zoneShifts: [UInt64]
    let tiers: [Tier]
    let classes: [WeightClass]
    /// The number of entries that can be selected, the first ones.
    let selectable: Int
    let rules: PickRules
    private let slots: TargetSlots
    /// Whether there are only one tier, one class and no limit, which is the fast path.
    let isUniform: Bool

    /// The maximum number of entries.
    public static let maxCount = 256

    /// - Parameters:
    ///   - entries: The targets, in any order. Those beyond ``maxCount`` are ignored.
    ///   - rules: How targets are selected.
    ///   - slots: Those of the states.
    init(_ entries: [TargetEntry], slots: TargetSlots, rules: PickRules) {
        self.slots = slots
        let sorted = entries.prefix(Self.maxCount).enumerated().sorted {
            Self.sortKey($0.element, $0.offset) < Self.sortKey($1.element, $1.offset)
        }.map(\.element)
        self.entries = sorted
        states = sorted.map { Unmanaged.passUnretained($0.state) }
        zoneShifts = sorted.map { $0.isOtherZone ? 1 : 0 }
        self.rules = rules
        selectable = sorted.firstIndex { $0.weight == 0 } ?? sorted.count
        var tiers: [Tier] = []
        var classes: [WeightClass] = []
        var start = 0
        while start < selectable {
            let tier = sorted[start].tier
            let end = sorted[start..<selectable].firstIndex { $0.tier != tier } ?? selectable
            let firstClass = classes.count
            classes += Self.classes(of: sorted, in: start..<end)
            tiers.append(Tier(entries: start..<end, classes: firstClass..<classes.count))
            start = end
        }
        self.tiers = tiers
        self.classes = classes
        isUniform = classes.count == 1 && rules.targetLimit == 0
    }

    private static func sortKey(_ entry: TargetEntry, _ offset: Int) -> (Int, Int, Int, Int) {
        (entry.weight == 0 ? 1 : 0, entry.tier, -entry.weight, offset)
    }

    private static func classes(of entries: [TargetEntry], in range: Range<Int>) -> [WeightClass] {
        let total = entries[range].reduce(0) { $0 + $1.weight }
        var classes: [WeightClass] = []
        var cumulative = 0
        var start = range.lowerBound
        while start < range.upperBound {
            let weight = entries[start].weight
            let end = entries[start..<range.upperBound].firstIndex { $0.weight != weight } ?? range.upperBound
            cumulative += weight * (end - start)
            classes.append(
                WeightClass(
                    entries: start..<end, weight: weight, cumulativeWeight: cumulative,
                    isLarge: weight * (end - start) * 10 >= total))
            start = end
        }
        return classes
    }

    /// Whether all targets that can be selected are usable. May be `false` although they are, while a removed target still
    /// has requests.
    var isAllUsable: Bool {
        // Those that cannot be selected are draining.
        slots.unusable.load(ordering: .relaxed) == entries.count &- selectable
    }

    /// The number of entries.
    public var count: Int { entries.count }

    func word(of index: Int) -> TargetWord {
        withState(index) { $0.word }
    }

    func slot(of index: Int) -> Int {
        withState(index) { $0.slot }
    }

    /// Accesses the state of a target. A reference from ``entries`` costs a retain and a release, five pairs of them in a
    /// selection, which is half of its instructions and contended by all event loops.
    @inline(__always)
    func withState<Result>(_ index: Int, _ body: (TargetState) -> Result) -> Result {
        states[index]._withUnsafeGuaranteedRef(body)
    }

    /// Counts the start of a request: ``TargetState/started(now:isTimed:)`` without a reference to the state.
    public func started(_ index: Int, now: UInt64, isTimed: Bool = true) {
        withState(index) { $0.started(now: now, isTimed: isTimed) }
    }

    /// The entry of a target.
    public subscript(index: Int) -> TargetEntry { entries[index] }
}

/// How targets are selected, prepared from the configuration.
struct PickRules: Sendable, Equatable {
    /// What targets are compared by.
    var policy: BalanceConfiguration.Policy
    /// Milliseconds of the slow start; 0 without one.
    var slowStart: UInt64
    /// The maximum number of requests in flight to a target; 0 is unlimited.
    var targetLimit: Int
    /// Nanoseconds after which a probe without a result is lost.
    var probeTime: UInt64

    /// - Parameters:
    ///   - targetLimit: The maximum number of requests in flight to a target; 0 is unlimited.
    ///   - probeTime: The time after which a probe without a result is lost: the time for a connection and a response
    ///     head, at most 1 hour.
    init(
        _ balance: BalanceConfiguration = .defaults, targetLimit: Int = 0,
        probeTime: Duration = .seconds(10)
    ) {
        policy = balance.policy
        slowStart = balance.slowStart.wholeNanoseconds / 1_000_000
        self.targetLimit = max(targetLimit, 0)
        self.probeTime = probeTime.wholeNanoseconds
    }
}
