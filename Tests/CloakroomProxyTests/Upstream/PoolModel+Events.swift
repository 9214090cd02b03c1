import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomProxy

/// The events of the model, and how it carries out their actions.
extension PoolModel {
    mutating func lease(on loop: Int) {
        serial += 1
        let waiter = serial
        let deadline = random(0..<3) == 0 ? now + UInt64(random(1..<500)) : .max
        let isFresh = random(0..<8) == 0
        let wasHeld = loops[loop].machine.isHeld
        let action: Machine.LeaseAction
        if capsRequests, random(0..<5) == 0 {
            action = loops[loop].machine.hold(waiter, now: now, deadline: deadline)
        } else {
            let choice = choose(on: loop)
            action = loops[loop].machine.lease(waiter, choice, isFresh: isFresh, now: now, deadline: deadline)
            if let id = action.attempt {
                loops[loop].attempts.append((id, loops[loop].targets[choice.first]))
            }
        }
        if let id = action.waiter { loops[loop].waiters.append((waiter, id, now, deadline)) }
        switch action {
        case .use(let connection):
            expect(!isFresh && !wasHeld)
            use(connection, on: loop)
        case .waitAndReplace(_, _, close: let connection): remove(connection, on: loop)
        case .wait(_, asksOthers: true): askOthers(loop)
        case .waitAndConnect, .wait: break
        case .rejectQueueFull: rejected += 1
        }
        if loops[loop].machine.isHeld { poll(loop) }
    }

    /// A random choice of targets.
    mutating func choose(on loop: Int) -> TargetPicker.Choice {
        let count = loops[loop].targets.count
        let first = random(0..<count)
        let second = (first + random(0..<count)) % count
        return TargetPicker.Choice(first: first, second: second == first ? -1 : second, isClose: random(0..<2) == 0)
    }

    /// What the tick does for requests that are held.
    mutating func poll(_ loop: Int) {
        while loops[loop].machine.isHeld {
            let action = loops[loop].machine.serve(choose(on: loop))
            guard action != .nothing else { break }
            carryOut(action, on: loop)
        }
        // The permit of an attempt that was abandoned is available again.
        for _ in 0..<3 { carryOut(loops[loop].machine.permitAvailable(), on: loop) }
    }

    mutating func finishAttempt(on loop: Int, succeeds: Bool) {
        guard let index = loops[loop].attempts.indices.randomElement(using: &generator) else { return }
        let attempt = loops[loop].attempts.remove(at: index)
        if succeeds {
            let connection = PooledTestConnection(attempt.id, target: attempt.target, targets: targets)
            let streams = usesStreams ? random(1..<5) : 1
            loops[loop].open.append(Member(connection: connection, capacity: streams))
            carryOut(loops[loop].machine.connected(connection, streams: streams), on: loop)
            return
        }
        switch loops[loop].machine.connectFailed(attempt.id, mayTryOther: random(0..<3) > 0) {
        case .connectOther(let id): begin(id, on: loop)
        case .fail(let waiters, let permit):
            for waiter in waiters {
                expect(loops[loop].waiters.first?.waiter == waiter)
                loops[loop].waiters.removeFirst()
                failed += 1
            }
            carryOut(permit, on: loop)
        }
    }

    mutating func release(on loop: Int) {
        let used = loops[loop].open.indices.filter { loops[loop].open[$0].used > 0 }
        guard let index = used.randomElement(using: &generator) else { return }
        loops[loop].open[index].used -= 1
        carryOut(loops[loop].machine.released(loops[loop].open[index].connection), on: loop)
    }

    mutating func lose(on loop: Int) {
        guard let index = loops[loop].open.indices.randomElement(using: &generator) else { return }
        let connection = loops[loop].open.remove(at: index).connection
        carryOut(loops[loop].machine.gone(connection), on: loop)
        expect(loops[loop].machine.gone(connection) == .nothing)
    }

    mutating func cancel(on loop: Int) {
        guard let index = loops[loop].waiters.indices.randomElement(using: &generator) else { return }
        loops[loop].machine.cancel(loops[loop].waiters.remove(at: index).id)
    }

    mutating func expire(on loop: Int) {
        while let rejection = loops[loop].machine.expire(now: now) {
            guard let index = loops[loop].waiters.firstIndex(where: { $0.waiter == rejection.waiter }) else {
                Issue.record("not a waiter")
                return
            }
            let entry = loops[loop].waiters.remove(at: index)
            switch rejection.reason {
            case .timeout: expect(index == 0 && now - entry.since >= 2_000)
            case .congested: expect(index == 0 && now - entry.since >= 50)
            case .deadline: expect(entry.deadline <= now)
            }
            expired += 1
        }
        expect(loops[loop].waiters.allSatisfy { $0.deadline > now && now - $0.since < 2_000 })
    }

    mutating func changeRoom(on loop: Int) {
        guard usesStreams, let index = loops[loop].open.indices.randomElement(using: &generator) else { return }
        let used = loops[loop].open[index].used
        let leases = random(0..<2) == 0 ? used : random(0..<used + 1)
        let further = random(0..<4)
        loops[loop].open[index].used = leases
        loops[loop].open[index].capacity = leases + further
        carryOut(
            loops[loop].machine.room(loops[loop].open[index].connection, leases: leases, further: further), on: loop)
    }

    mutating func retire(on loop: Int) {
        guard let index = loops[loop].open.indices.randomElement(using: &generator) else { return }
        loops[loop].open[index].isRetiring = true
        carryOut(loops[loop].machine.retire(loops[loop].open[index].connection), on: loop)
    }

    /// Some targets vanish, others come, and the order changes.
    mutating func changeTargets(on loop: Int) {
        let old = loops[loop].targets
        let new = Array((0..<5).shuffled(using: &generator).prefix(random(1..<5)))
        loops[loop].targets = new
        let closed = loops[loop].machine.targetsChanged(new.map { old.firstIndex(of: $0) ?? -1 })
        for index in loops[loop].open.indices where !new.contains(loops[loop].open[index].connection.target) {
            loops[loop].open[index].isRetiring = true
        }
        for connection in closed.connections {
            expect(!new.contains(connection.target))
            remove(connection, on: loop)
        }
        for other in closed.wakes { messages.append((other, .permitAvailable)) }
        for index in loops[loop].attempts.indices where !new.contains(loops[loop].attempts[index].target) {
            // A target that comes back is another one for the pool.
            loops[loop].attempts[index].target = -1
        }
        carryOut(loops[loop].machine.permitAvailable(), on: loop)
    }

    // MARK: - Messages

    mutating func deliver() {
        guard let index = messages.indices.randomElement(using: &generator) else { return }
        let (loop, message) = messages.remove(at: index)
        switch message {
        case .starved: carryOut(loops[loop].machine.starved(), on: loop)
        case .permitAvailable: carryOut(loops[loop].machine.permitAvailable(), on: loop)
        }
    }

    mutating func askOthers(_ loop: Int) {
        for other in connections.holders where other != loop { messages.append((other, .starved)) }
    }

    // MARK: - Actions

    mutating func carryOut(_ action: Machine.ConnectionAction, on loop: Int) {
        switch action {
        case .nothing: break
        case .handOver(let connection, to: let waiter):
            expect(loops[loop].waiters.first?.waiter == waiter)
            loops[loop].waiters.removeFirst()
            use(connection, on: loop)
            guard usesStreams else { break }
            while true {
                let next = loops[loop].machine.next(for: connection)
                guard next != .nothing else { break }
                carryOut(next, on: loop)
            }
        case .keep(let connection):
            expect(!loops[loop].isClosed)
            let member = loops[loop].open.first { $0.connection == connection }
            expect(member?.used == 0 && member?.isRetiring == false)
        case .close(let connection, let permit):
            remove(connection, on: loop)
            carryOut(permit, on: loop)
        case .permit(let permit): carryOut(permit, on: loop)
        }
    }

    mutating func carryOut(_ action: PermitAction, on loop: Int) {
        switch action {
        case .nothing: break
        case .wake(let other): messages.append((other, .permitAvailable))
        case .askOthers: askOthers(loop)
        case .connect(let id):
            if capsRequests, random(0..<6) == 0 {
                carryOut(loops[loop].machine.abandon(id), on: loop)
            } else {
                begin(id, on: loop)
                // A woken loop goes on until it has an attempt for each waiter.
                carryOut(loops[loop].machine.permitAvailable(), on: loop)
            }
        }
    }

    mutating func begin(_ id: PooledConnectionID, on loop: Int) {
        let target = random(0..<loops[loop].targets.count)
        loops[loop].machine.begin(id, on: target)
        loops[loop].attempts.append((id, loops[loop].targets[target]))
    }

    mutating func use(_ connection: Connection, on loop: Int) {
        guard let index = loops[loop].open.firstIndex(where: { $0.connection == connection }) else {
            Issue.record("not a connection of the pool")
            return
        }
        expect(!loops[loop].open[index].isRetiring)
        expect(loops[loop].open[index].used < loops[loop].open[index].capacity)
        loops[loop].open[index].used += 1
        served += 1
    }

    mutating func remove(_ connection: Connection, on loop: Int) {
        guard let index = loops[loop].open.firstIndex(where: { $0.connection == connection }) else {
            Issue.record("not a connection of the pool")
            return
        }
        expect(loops[loop].open[index].used == 0)
        loops[loop].open.remove(at: index)
    }
}
