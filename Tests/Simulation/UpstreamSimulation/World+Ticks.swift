import CloakroomCore
import CloakroomProxy
import CloakroomWire
import TestSupport

extension World {
    func prepareTargets() {
        states = Array(repeating: nil, count: targets.count)
        tableIndices = Array(repeating: -1, count: targets.count)
        for (index, entry) in table.entries.enumerated() {
            states[entry.configurationIndex] = entry.state
            tableIndices[entry.configurationIndex] = index
        }
    }

    func prepareLoops() {
        let count = scenario.loops
        let limits = PoolLimits(
            pendingTimeout: scenario.pool.pendingTimeout.nanoseconds,
            congestedAfter: scenario.pool.congestedAfter.nanoseconds,
            congestedTimeout: scenario.pool.congestedTimeout.nanoseconds)
        let shared = permits(loops: count)
        sharedConnections = shared.connections
        for loop in 0..<count {
            // With the bug, each loop has permits of its own.
            let (connections, places) = bug == .fixedShares ? permits(loops: 1, of: count) : shared
            let pool = UpstreamPoolStateMachine<ModelConnection, Int>(
                limits, connections: connections, places: places, loop: bug == .fixedShares ? 0 : loop,
                targets: table.count)
            let zeros = Array(repeating: 0, count: targets.count)
            loops.append(ModelLoop(pool: pool, succeeded: zeros, failed: zeros))
        }
    }

    private func permits(loops: Int, of parts: Int = 1) -> (connections: SharedPermits, places: SharedPermits) {
        (
            SharedPermits(maximum: scenario.pool.maxConnections / parts, loops: loops),
            SharedPermits(maximum: scenario.pool.maxPending / parts, loops: loops)
        )
    }

    /// Requests of the first loop whose clients never send the body.
    func lease(dead count: Int) {
        for index in 0..<count {
            let request = Request(arrival: now)
            request.isDead = true
            requests.append(request)
            lease(index, TargetPicker.Choice(first: index % table.count), isFresh: true)
        }
    }

    func tick(_ loop: Int) {
        for target in targets.indices {
            let (succeeded, failed) = (loops[loop].succeeded[target], loops[loop].failed[target])
            guard succeeded + failed > 0 else { continue }
            states[target]?.count(succeeded: succeeded, failed: failed)
            loops[loop].succeeded[target] = 0
            loops[loop].failed[target] = 0
        }
        board.budget.add(firstAttempts: loops[loop].firstAttempts)
        loops[loop].firstAttempts = 0
        expireWaiters(loop)
        if isActive { push(.tick, loop, at: now + Self.second) }
    }

    /// The tick of the supervisor.
    func supervise() {
        for change in board.tick(now: now, random: random.next()) { outcome.note(change, at: now - Self.epoch) }
        if isActive { push(.supervise, at: now + Self.second) }
    }

    private var isActive: Bool {
        now < end || (requests.count - freeRequests.count > scenario.deadLeases && now < end + 120 * Self.second)
    }

    func setIncident(_ incident: Incident, isActive: Bool) {
        targets[incident.target].incident = isActive ? incident.kind : nil
        if case .absent = incident.kind { replaceTargets() }
        if case .unreachable = incident.kind, isActive { resetConnections(of: incident.target) }
    }

    /// DNS added or removed a target.
    private func replaceTargets() {
        board.replaceTargets(scenario.specifications(targets), now: now)
        tableChanged()
    }

    /// A configuration with the same values is loaded.
    func reload() {
        let next = UpstreamBoard(
            name: board.name, settings: scenario.boardSettings, targets: scenario.specifications(targets),
            adopting: bug == .reloadForgets ? nil : board, now: now)
        next.activate(now: now)
        board = next
        tableChanged()
    }

    private func tableChanged() {
        let previous = tableIndices
        table = board.table
        prepareTargets()
        let kept = table.entries.map { previous[$0.configurationIndex] }
        for loop in loops.indices {
            let closed = loops[loop].pool.targetsChanged(kept)
            for woken in closed.wakes { push(.wake, woken, at: now + Self.messageTime) }
            wake(loop)
        }
    }

    // MARK: - Selection

    /// Selects a target by the gateway's rules, or by those of the injected bug.
    func pick(tried: TriedTargets, loop: Int) -> TargetPicker.Pick {
        var tried = tried
        while true {
            let bits = random.next()
            let pick =
                bug == .weightsInCost
                ? pickByWeightedCost(bits)
                : TargetPicker.pick(table, tried: tried, random: bits, turn: &loops[loop].turn, now: now)
            guard bug == .noProbe, case .target(let choice) = pick, choice.isProbe else { return pick }
            let state = table[choice.first].state
            board.probeAbandoned(state, now: now)
            tried.insert(state.slot)
        }
    }

    /// The lower of two costs, which weights divide.
    private func pickByWeightedCost(_ bits: UInt64) -> TargetPicker.Pick {
        let count = UInt64(table.count)
        let first = Int(((bits >> 32) * count) >> 32)
        var second = Int(((bits & 0xffff_ffff) * (count - 1)) >> 32)
        if second >= first { second += 1 }
        let costs = [first, second].map { index in
            let entry = table[index]
            let latency = entry.state.estimatedLatency(now: now) ?? 0
            return Double(latency) * Double(entry.state.inFlight + 1) / Double(entry.weight)
        }
        return .target(
            costs[0] <= costs[1]
                ? TargetPicker.Choice(first: first, second: second)
                : TargetPicker.Choice(first: second, second: first))
    }
}
