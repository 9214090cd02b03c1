import Synchronization

extension UpstreamBoard {
    /// Called about once a second by the supervisor: ejects by share, shortens future ejections, fills the retry budget,
    /// decides about panic.
    /// - Parameter random: Random bits, for the jitter of ejections.
    /// - Returns: What changed since the last call, for logs and metrics.
    public func tick(now: UInt64, random: UInt64) -> [UpstreamChange] {
        members.withLock { members in
            guard members.phase == .active else { return [] }
            let elapsed = members.lastTick.map { now > $0 ? now - $0 : 0 } ?? 0
            members.lastTick = now
            members.collectOutcomes(elapsed: elapsed, now: now)
            if settings.eject.share > 0, settings.eject.most > 0 {
                members.ejectByShare(settings.eject, times: times, random: random, now: now)
            }
            members.claimProbeOfOnlyTarget(now: now)
            members.endWarmingOfAll(now: now)
            members.updatePanic()
            panicking.store(members.isPanicking, ordering: .relaxed)
            budget.tick(elapsed: elapsed)
            let isBudgetSpent = settings.retry.isEnabled && budget.isReplenished && budget.available == 0
            if isBudgetSpent != members.isBudgetSpent {
                members.isBudgetSpent = isBudgetSpent
                members.report(isBudgetSpent ? .budgetSpent : .budgetAvailable)
            }
            members.updateConditions(now: now)
            members.dropRetired()
            return members.takeChanges()
        }
    }

    /// Whether unusable targets are used because none is usable, as of the last tick. ``TargetPicker`` finds that by itself.
    public var isPanicking: Bool { panicking.load(ordering: .relaxed) }

    /// The condition of a target.
    public func condition(of target: TargetState, now: UInt64) -> TargetCondition {
        target.condition(slowStart: members.withLock { $0.table.rules.slowStart }, now: now)
    }
}

extension TargetState {
    func condition(slowStart: UInt64, now: UInt64) -> TargetCondition {
        let word = word
        if word.isDraining { return .draining }
        if word.isDown { return .down }
        switch word.circuit {
        case .ejected: return .ejected
        case .backOff: return .backingOff
        case .closed:
            let age = warmingTime(at: MonotonicMilliseconds(now))
            return age.map { $0 < slowStart } ?? false ? .warming : .up
        }
    }
}

extension BoardMembers {
    /// Nanoseconds with successful requests and without failures that make the next ejection shorter.
    static let cleanPeriod: UInt64 = 10_000_000_000

    fileprivate mutating func collectOutcomes(elapsed: UInt64, now: UInt64) {
        let time = MonotonicMilliseconds(now)
        for entry in table.entries {
            let state = entry.state
            let (succeeded, failed) = state.takeOutcomes()
            var record = records[state.identity] ?? Record()
            record.outcomes.add(succeeded: succeeded, failed: failed, now: now)
            if failed > 0 {
                record.cleanTime = 0
            } else if succeeded > 0 {
                record.cleanTime += elapsed
            }
            if record.cleanTime >= Self.cleanPeriod {
                record.cleanTime = 0
                state.apply(.cleanPeriod, now: now)
            }
            records[state.identity] = record
            state.sweepEstimate(now: now)
            state.apply(.aged, now: now)
            if let age = state.warmingTime(at: time), age >= table.rules.slowStart { state.endWarming() }
        }
    }

    /// Ejects targets whose share of failures is high and at least three times that of the others together, so that none is
    /// ejected if all fail alike.
    fileprivate mutating func ejectByShare(
        _ configuration: EjectionConfiguration, times: EjectionTimes, random: UInt64, now: UInt64
    ) {
        var all: (failed: UInt64, total: UInt64) = (0, 0)
        for entry in table.entries[..<table.selectable] {
            guard let outcomes = records[entry.state.identity]?.outcomes else { continue }
            all.failed += outcomes.failed
            all.total += outcomes.total
        }
        for entry in table.entries[..<table.selectable] where entry.state.word.isUsable {
            guard let outcomes = records[entry.state.identity]?.outcomes else { continue }
            let (failed, total) = (outcomes.failed, outcomes.total)
            guard total >= UInt64(EjectionConfiguration.volume), Double(failed) >= configuration.share * Double(total)
            else { continue }
            let rest = (failed: Double(all.failed - failed), total: Double(all.total - total))
            guard rest.total > 0, Double(failed) * rest.total >= 3 * rest.failed * Double(total) else { continue }
            let bits = random &+ UInt64(entry.state.slot) &* 0x9e37_79b9_7f4a_7c15
            if eject(entry.state, .share, most: configuration.most, times: times, random: bits, now: now) {
                records[entry.state.identity]?.outcomes.reset()
            }
        }
    }

    /// The only target is selected whatever its word is, so that no request claims its probe.
    fileprivate func claimProbeOfOnlyTarget(now: UInt64) {
        guard table.selectable == 1, let entry = table.entries.first else { return }
        _ = entry.state.claimProbe(time: table.rules.probeTime, now: now)
    }

    /// Without a usable target, `TargetPicker` selects the one that is expected to return first.
    fileprivate mutating func updatePanic() {
        let entries = table.entries[..<table.selectable]
        let isPanicking = !entries.isEmpty && !entries.contains { $0.state.word.isUsable }
        guard isPanicking != self.isPanicking else { return }
        self.isPanicking = isPanicking
        report(isPanicking ? .panicStarted : .panicEnded)
    }

    fileprivate mutating func updateConditions(now: UInt64) {
        for entry in table.entries {
            update(entry.state, entry.state.condition(slowStart: table.rules.slowStart, now: now))
        }
        // They are not drained by their words: requests that began with the previous table may select them.
        for state in retired { update(state, .draining) }
    }

    private mutating func update(_ state: TargetState, _ condition: TargetCondition) {
        let known = records[state.identity]?.condition ?? .up
        guard condition != known else { return }
        records[state.identity, default: Record()].condition = condition
        report(.condition(state.identity, from: known, to: condition))
    }
}
