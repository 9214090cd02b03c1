import CloakroomCore
import CloakroomProxy
import CloakroomWire
import TestSupport

extension World {
    /// Begins a connection attempt.
    func connect(_ id: PooledConnectionID, to target: Int, loop: Int) {
        let attempt = Attempt(id: id, loop: loop, target: target, startedAt: now)
        let index = freeAttempts.popLast() ?? attempts.count
        if index == attempts.count { attempts.append(attempt) } else { attempts[index] = attempt }
        // 0.5 to 2 ms.
        let time = targets[target].isReachable ? 500_000 + random.next() % 1_500_000 : 200_000
        push(.attemptEnds, index, at: now + time)
        countConnections()
    }

    private func countConnections() {
        var count = 0
        for loop in loops { count += loop.pool.connectionCount }
        outcome.mostConnections = max(outcome.mostConnections, count)
    }

    func attemptEnds(_ index: Int) {
        let attempt = attempts[index]
        freeAttempts.append(index)
        guard let state = states[attempt.target] else { return }
        guard targets[attempt.target].isReachable else {
            board.connectFailed(state, startedAt: attempt.startedAt, now: now, random: random.next())
            return connectFailed(attempt, state)
        }
        outcome.connects += 1
        board.connected(state, now: now)
        let connection = ModelConnection(attempt.id, to: attempt.target, state, of: self)
        expireWaiters(attempt.loop)
        apply(loops[attempt.loop].pool.connected(connection), loop: attempt.loop)
    }

    private func connectFailed(_ attempt: Attempt, _ state: TargetState) {
        var tried = TriedTargets.none
        tried.insert(state.slot)
        var mayTryOther = false
        var other = -1
        if case .target(let choice) = pick(tried: tried, loop: attempt.loop) {
            mayTryOther = true
            other = choice.first
        }
        switch loops[attempt.loop].pool.connectFailed(attempt.id, mayTryOther: mayTryOther) {
        case .connectOther(let id):
            loops[attempt.loop].pool.begin(id, on: other)
            connect(id, to: table[other].configurationIndex, loop: attempt.loop)
        case .fail(let waiters, let permit):
            apply(permit, loop: attempt.loop)
            for waiter in waiters {
                requests[waiter].waiter = nil
                unassign(waiter)
                requests[waiter].attempts += 1
                failed(waiter, .connect, .failed, target: state)
            }
        }
    }

    func apply(_ action: PooledConnectionAction<ModelConnection, Int>, loop: Int) {
        switch action {
        case .nothing, .keep: break
        case .handOver(let connection, let index): handOver(connection, to: index)
        case .close(_, let permit): apply(permit, loop: loop)
        case .permit(let permit): apply(permit, loop: loop)
        }
    }

    func apply(_ action: PermitAction, loop: Int) {
        switch action {
        case .nothing: break
        case .connect(let id): connectAny(id, loop: loop)
        case .wake(let other): push(.wake, other, at: now + Self.messageTime)
        case .askOthers: askOthers()
        }
    }

    /// Begins an attempt for the waiters of a loop.
    private func connectAny(_ id: PooledConnectionID, loop: Int) {
        guard case .target(let choice) = pick(tried: .none, loop: loop) else {
            if case .fail(let waiters, let permit) = loops[loop].pool.connectFailed(id, mayTryOther: false) {
                apply(permit, loop: loop)
                for waiter in waiters { end(waiter, .rejected) }
            }
            return
        }
        loops[loop].pool.begin(id, on: choice.first)
        connect(id, to: table[choice.first].configurationIndex, loop: loop)
    }

    // MARK: - Queue

    /// Rejects requests that have waited for too long.
    func expireWaiters(_ loop: Int) {
        guard loops[loop].pool.waitingCount > 0 else { return }
        while let expired = loops[loop].pool.expire(now: now) {
            end(expired.waiter, expired.reason == .deadline ? .timedOut : .rejected)
        }
    }

    func watchQueue(_ loop: Int) {
        guard loops[loop].pool.waitingCount > 0, !loops[loop].isExpiryScheduled else { return }
        loops[loop].isExpiryScheduled = true
        push(.expire, loop, at: now + 10_000_000)
    }

    func expire(_ loop: Int) {
        loops[loop].isExpiryScheduled = false
        expireWaiters(loop)
        watchQueue(loop)
    }

    // MARK: - Permits of other loops

    /// A permit is available.
    func wake(_ loop: Int) {
        while true {
            let action = loops[loop].pool.permitAvailable()
            apply(action, loop: loop)
            guard case .connect = action else { return }
        }
    }

    /// Another loop needs a permit.
    func starve(_ loop: Int) {
        apply(loops[loop].pool.starved(), loop: loop)
    }

    /// Asks the loops that use common permits to give up idle connections.
    func askOthers() {
        for loop in sharedConnections.holders { push(.starve, loop, at: now + Self.messageTime) }
    }

    func resetConnections(of target: Int) {
        for index in requests.indices where requests[index].connection?.target == target {
            push(.reset, index, generation: requests[index].generation, at: now)
        }
    }
}
