import Synchronization

/// What the lock of an ``UpstreamBoard`` protects: the table, and what is known about targets beyond their states.
struct BoardMembers {
    /// What the supervisor knows about one target.
    struct Record {
        /// The condition that was reported last.
        var condition = TargetCondition.up
        /// Outcomes of the last 10 s.
        var outcomes = OutcomeWindow()
        /// Nanoseconds with successful requests since the last failure.
        var cleanTime: UInt64 = 0
    }

    /// Which of successive boards determines the shared states.
    enum Phase {
        /// The configuration is not in effect yet.
        case pending
        /// The configuration is in effect.
        case active
        /// Another configuration is in effect: late results change nothing.
        case superseded
    }

    /// The maximum number of changes that are kept until the next tick.
    static let maxChanges = 512

    var table: TargetTable
    /// The targets that the previous table did not have.
    var new: Set<TargetIdentity>
    /// The targets that are down until a check has passed, unless the previous table had them.
    var startingDown: Set<TargetIdentity>
    var phase: Phase
    var records: [TargetIdentity: Record] = [:]
    /// Removed targets with requests in flight.
    private(set) var retired: [TargetState] = []
    /// Changes since the last tick.
    private(set) var changes: [UpstreamChange] = []
    var lastTick: UInt64?
    var isPanicking = false
    var isBudgetSpent = false

    init(_ table: TargetTable, new: Set<TargetIdentity>, startingDown: Set<TargetIdentity>, phase: Phase) {
        self.table = table
        self.new = new
        self.startingDown = startingDown
        self.phase = phase
        noteNewTargets()
    }

    /// A new target that is down has not become so: no change is reported.
    private mutating func noteNewTargets() {
        for identity in new.intersection(startingDown) { records[identity] = Record(condition: .down) }
    }

    /// The living states of all targets, removed ones included.
    var states: [TargetIdentity: TargetState] {
        var states: [TargetIdentity: TargetState] = [:]
        for state in retired { states[state.identity] = state }
        for entry in table.entries { states[entry.state.identity] = entry.state }
        return states
    }

    mutating func report(_ change: UpstreamChange) {
        if changes.count < Self.maxChanges { changes.append(change) }
    }

    mutating func takeChanges() -> [UpstreamChange] {
        defer { changes = [] }
        return changes
    }

    /// Adopts what the board of the previous configuration knows.
    mutating func adopt(_ previous: BoardMembers) {
        records.merge(previous.records) { $1 }
        retired = previous.retired
        changes = previous.changes
        lastTick = previous.lastTick
        isPanicking = previous.isPanicking
        isBudgetSpent = previous.isBudgetSpent
    }

    /// Prepares the targets of a new table, and keeps those that it no longer has until their requests have ended. They
    /// stay usable for requests that began with the previous table.
    mutating func tableChanged(from previous: TargetTable, rules: EstimateRules, now: UInt64) {
        let current = Set(table.entries.map(\.state.identity))
        let before = Set(previous.entries.map(\.state.identity))
        retired.removeAll { current.contains($0.identity) }
        var known = Set(retired.map(\.identity))
        for entry in previous.entries where !current.contains(entry.state.identity) {
            if known.insert(entry.state.identity).inserted { retired.append(entry.state) }
        }
        for entry in table.entries {
            entry.state.setRules(rules)
            entry.state.apply(entry.weight == 0 ? .drained : .undrained, now: now)
            let identity = entry.state.identity
            if new.contains(identity) { entry.state.startWarming(at: MonotonicMilliseconds(now)) }
            // A removed target that returns before its last request has ended was not checked meanwhile.
            if startingDown.contains(identity), !before.contains(identity) { entry.state.apply(.checkFailed, now: now) }
        }
        noteNewTargets()
        new = []
        startingDown = []
        endWarmingOfAll(now: now)
    }

    /// Ends the slow start if no usable target is warm: there is none that could get the remaining requests.
    func endWarmingOfAll(now: UInt64) {
        let now = MonotonicMilliseconds(now)
        let isAnyWarm = table.entries[..<table.selectable].contains {
            $0.state.word.isUsable && $0.state.warmingTime(at: now).map { $0 >= table.rules.slowStart } ?? true
        }
        guard !isAnyWarm else { return }
        for entry in table.entries where entry.state.word.isUsable { entry.state.endWarming() }
    }

    /// Reports and forgets removed targets without requests in flight.
    mutating func dropRetired() {
        for state in retired where state.inFlight == 0 {
            records[state.identity] = nil
            report(.removed(state.identity))
        }
        retired.removeAll { $0.inFlight == 0 }
    }

    /// Ejects a target, if the limit permits it and another one is usable.
    /// - Returns: Whether it was ejected.
    @discardableResult
    mutating func eject(
        _ target: TargetState, _ reason: EjectionReason, most: Double, times: EjectionTimes, random: UInt64, now: UInt64
    ) -> Bool {
        var ejected = 0
        var hasOther = false
        var isMember = false
        for entry in table.entries[..<table.selectable] {
            let word = entry.state.word
            if word.circuit == .ejected { ejected += 1 }
            if entry.state === target { isMember = true } else { hasOther = hasOther || word.isUsable }
        }
        guard isMember, hasOther, Double(ejected + 1) <= most * Double(table.selectable) else { return false }
        let (before, after) = target.apply(.ejected(times: times, random: random), now: now)
        guard before != after else { return false }
        reportEjection(of: target, reason, after, now: now)
        return true
    }

    mutating func reportEjection(of target: TargetState, _ reason: EjectionReason, _ word: TargetWord, now: UInt64) {
        let time = MonotonicMilliseconds(now).elapsed(until: word.until)
        report(.ejected(target.identity, reason, milliseconds: Int(time)))
    }
}

/// The outcomes of requests in the last 10 s, in parts of a second.
struct OutcomeWindow {
    private var succeededParts = InlineArray<10, UInt64>(repeating: 0)
    private var failedParts = InlineArray<10, UInt64>(repeating: 0)
    private var second: UInt64 = 0

    /// Adds the outcomes since the last call.
    mutating func add(succeeded: UInt64, failed: UInt64, now: UInt64) {
        let now = now / 1_000_000_000
        if now > second {
            for offset in 0..<min(now - second, 10) {
                succeededParts[Int((now - offset) % 10)] = 0
                failedParts[Int((now - offset) % 10)] = 0
            }
            second = now
        }
        succeededParts[Int(second % 10)] += min(succeeded, 1 << 32)
        failedParts[Int(second % 10)] += min(failed, 1 << 32)
    }

    /// Forgets all outcomes.
    mutating func reset() {
        succeededParts = InlineArray(repeating: 0)
        failedParts = InlineArray(repeating: 0)
    }

    var failed: UInt64 { failedParts.indices.reduce(0) { $0 + failedParts[$1] } }
    var total: UInt64 { failed + succeededParts.indices.reduce(0) { $0 + succeededParts[$1] } }
}
