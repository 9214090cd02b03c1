import CloakroomCore
import CloakroomProxy
import CloakroomWire
import TestSupport

/// A request in the gateway. Its place is used again, with another generation.
final class Request {
    let loop: Int
    var generation: Int
    let arrival: UInt64
    let service: UInt64
    /// When the present attempt was assigned to a target, and when it was sent.
    var assignedAt: UInt64 = 0
    var sentAt: UInt64 = 0
    /// The target at which it is counted; -1 for none.
    var target = -1
    /// The state of this target: starts and ends are counted at the same object, also if a reload replaces states.
    var state: TargetState?
    /// The last target that it was sent to; -1 for none.
    var sentTo = -1
    var connection: ModelConnection?
    var waiter: WaiterID?
    var attempts = 0
    var isTimeoutSet = false
    /// Whether its client never sends the body.
    var isDead = false
    var tried = TriedTargets.none

    init(loop: Int = 0, generation: Int = 0, arrival: UInt64, service: UInt64 = 0) {
        self.loop = loop
        self.generation = generation
        self.arrival = arrival
        self.service = service
    }
}

extension World {
    func begin(service: UInt64, on loop: Int) {
        if let index = freeRequests.popLast() {
            let generation = requests[index].generation
            requests[index] = Request(loop: loop, generation: generation, arrival: now, service: service)
            attempt(index)
        } else {
            requests.append(Request(loop: loop, arrival: now, service: service))
            attempt(requests.count - 1)
        }
    }

    /// Selects a target and requests a connection.
    func attempt(_ index: Int) {
        let request = requests[index]
        let loop = request.loop
        switch pick(tried: request.tried, loop: loop) {
        case .reject: end(index, .rejected)
        case .target(let choice): lease(index, choice, isFresh: false)
        }
    }

    func lease(_ index: Int, _ choice: TargetPicker.Choice, isFresh: Bool) {
        let request = requests[index]
        let loop = request.loop
        expireWaiters(loop)
        let deadline = request.arrival + headTimeout
        let action = loops[loop].pool.lease(index, choice, isFresh: isFresh, now: now, deadline: deadline)
        request.assignedAt = now
        let target = table[choice.first].configurationIndex
        switch action {
        case .use(let connection):
            abandonProbe(choice, unlessUsed: connection.target)
            assign(index, to: connection.target)
            send(index, on: connection)
        case .waitAndConnect(let waiter, let attempt):
            request.waiter = waiter
            assign(index, to: target)
            connect(attempt, to: target, loop: loop)
        case .waitAndReplace(let waiter, let attempt, _):
            request.waiter = waiter
            assign(index, to: target)
            connect(attempt, to: target, loop: loop)
        case .wait(let waiter, let asksOthers):
            request.waiter = waiter
            assign(index, to: target)
            if asksOthers { askOthers() }
        case .rejectQueueFull:
            abandonProbe(choice, unlessUsed: -1)
            end(index, .rejected)
        }
        watchQueue(loop)
    }

    private func abandonProbe(_ choice: TargetPicker.Choice, unlessUsed used: Int) {
        let target = table[choice.first].configurationIndex
        if choice.isProbe, target != used, let state = states[target] { board.probeAbandoned(state, now: now) }
    }

    /// Counts a request at a target, and no longer at another one.
    private func assign(_ index: Int, to target: Int) {
        let request = requests[index]
        guard request.target != target else { return }
        unassign(index)
        request.target = target
        request.state = states[target]
        // Without the rule of silence no target owes a head.
        request.state?.started(now: now, isTimed: bug != .noSilenceRule)
    }

    func unassign(_ index: Int) {
        let request = requests[index]
        request.state?.ended(owesHead: bug != .noSilenceRule && !request.isDead)
        request.state = nil
        request.target = -1
    }

    func handOver(_ connection: ModelConnection, to index: Int) {
        let request = requests[index]
        request.waiter = nil
        if request.target != connection.target { request.assignedAt = now }
        assign(index, to: connection.target)
        send(index, on: connection)
    }

    private func send(_ index: Int, on connection: ModelConnection) {
        let request = requests[index]
        let target = connection.target
        request.connection = connection
        request.sentAt = now
        request.sentTo = target
        request.isTimeoutSet = false
        if request.isDead {
            request.state?.noLongerOwesHead()
            return
        }
        request.attempts += 1
        if request.attempts == 1 { loops[request.loop].firstAttempts += 1 }
        outcome.attempts.append((now - Self.epoch, target))
        let name = RequestName(index: index, generation: request.generation)
        switch targets[target].arrive(name) {
        case .begins: process(name, at: target)
        case .waits: setTimeout(index)
        case .fails: push(.failure, index, generation: name.generation, at: now + 1_000_000)
        case .isLost:
            if targets[target].isReachable {
                setTimeout(index)
            } else {
                push(.reset, index, generation: name.generation, at: now + 200_000)
            }
        }
    }

    /// A worker begins.
    private func process(_ name: RequestName, at target: Int) {
        let time = now + targets[target].duration(requests[name.index].service)
        let deadline = requests[name.index].arrival + headTimeout
        if time > deadline, !requests[name.index].isTimeoutSet { setTimeout(name.index) }
        push(.workerDone, name.index | target << Self.targetShift, generation: name.generation, at: time)
    }

    private static var targetShift: Int { 20 }

    private func setTimeout(_ index: Int) {
        let request = requests[index]
        request.isTimeoutSet = true
        let deadline = max(request.arrival + headTimeout, now)
        push(.timeout, index, generation: request.generation, at: deadline)
    }

    func workerDone(_ event: Event) {
        let target = event.index >> Self.targetShift
        let name = RequestName(index: event.index & ((1 << Self.targetShift) - 1), generation: event.generation)
        targets[target].finish()
        if isCurrent(name) {
            if targets[target].responds { responded(name, isFailure: false) } else { setTimeout(name.index) }
        }
        while targets[target].responds, let next = targets[target].next() {
            guard isCurrent(next) else { continue }
            targets[target].begin()
            process(next, at: target)
        }
    }

    func isCurrent(_ name: RequestName) -> Bool {
        requests[name.index].generation == name.generation
    }

    // MARK: - Ends of attempts

    func responded(_ name: RequestName, isFailure: Bool) {
        let request = requests[name.index]
        guard isCurrent(name), let connection = request.connection, let state = request.state else { return }
        let duration = now - request.sentAt
        if isFailure {
            loops[request.loop].failed[connection.target] += 1
            board.requestFailed(
                state, after: duration, startedAt: request.assignedAt, now: now, random: random.next())
        } else {
            loops[request.loop].succeeded[connection.target] += 1
            if state.headReceived(after: duration, now: now) {
                board.requestSucceeded(state, startedAt: request.assignedAt, now: now)
            }
        }
        finishAttempt(name.index)
        expireWaiters(request.loop)
        apply(loops[request.loop].pool.released(connection), loop: request.loop)
        if isFailure {
            failed(name.index, .status(503, hasRetryAfter: false), .failed, target: state)
        } else {
            end(name.index, .succeeded)
        }
    }

    /// The connection of a request was closed before its response.
    func reset(_ name: RequestName) {
        lose(name, .failed, .reset)
    }

    func timedOut(_ name: RequestName) {
        lose(name, .timedOut, nil)
    }

    private func lose(_ name: RequestName, _ ending: Outcome.Ending, _ failure: RetryDecision.Failure?) {
        let request = requests[name.index]
        guard isCurrent(name), let connection = request.connection, let state = request.state else { return }
        loops[request.loop].failed[connection.target] += 1
        board.requestFailed(
            state, after: now - request.sentAt, startedAt: request.assignedAt, now: now, random: random.next())
        finishAttempt(name.index)
        apply(loops[request.loop].pool.gone(connection), loop: request.loop)
        guard let failure else { return end(name.index, ending) }
        failed(name.index, failure, ending, target: state)
    }

    /// Ends an attempt; events of it have no effect any more.
    private func finishAttempt(_ index: Int) {
        let request = requests[index]
        unassign(index)
        request.connection = nil
        request.generation = (request.generation + 1) & 0x7fff_ffff
    }

    func failed(
        _ index: Int, _ failure: RetryDecision.Failure, _ ending: Outcome.Ending, target: TargetState
    ) {
        let request = requests[index]
        guard scenario.retry.isEnabled else { return end(index, ending) }
        let deadline = request.arrival + headTimeout
        var situation = RetryDecision.Situation(
            failure, method: .get, attempts: request.attempts, sends: request.attempts,
            remaining: deadline > now ? deadline - now : 0)
        request.tried.insert(target.slot)
        situation.targets = hasOther(than: request.tried) ? .other : .tried
        switch RetryDecision.decide(situation, scenario.retry, budget: board.budget, random: random.next()) {
        case .retryOther: attempt(index)
        case .retryFresh: push(.retry, index, generation: request.generation, at: now)
        case .retryAny(_, let delay):
            push(.retry, index, generation: request.generation, at: now + delay)
        case .pass: end(index, ending)
        }
    }

    private func hasOther(than tried: TriedTargets) -> Bool {
        for entry in table.entries where entry.state.word.isUsable && !tried.contains(entry.state.slot) { return true }
        return false
    }

    func sendAgain(_ name: RequestName) {
        guard isCurrent(name) else { return }
        requests[name.index].tried = .none
        attempt(name.index)
    }

    func end(_ index: Int, _ ending: Outcome.Ending) {
        let request = requests[index]
        outcome.records.append(
            Outcome.Record(
                arrival: request.arrival - Self.epoch, latency: now - request.arrival, service: request.service,
                target: request.sentTo, ending: ending))
        outcome.hash(UInt64(ending.rawValue) << 32 | UInt64(truncatingIfNeeded: request.sentTo) & 0xffff)
        unassign(index)
        request.generation = (request.generation + 1) & 0x7fff_ffff
        request.connection = nil
        request.waiter = nil
        freeRequests.append(index)
    }
}
