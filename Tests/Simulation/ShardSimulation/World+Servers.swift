import CloakroomCore

/// The execution of commands, replication, and `WAIT`.
extension World {
    func execute(_ call: Int, at node: Node) {
        let slot = calls[call].slot
        let body = calls[call].body
        if case .topology = body {
            reply(call, .topology(node.owners, isPrimary: node.isPrimary), from: node)
            return
        }
        guard !node.isClusterDown(now, timeout: settings.nodeTimeout) else {
            coverage.count(.clusterDown)
            reply(call, .clusterDown, from: node)
            return
        }
        var readsReplica = false
        if mutant == .readsReplica, case .read = body { readsReplica = true }
        if !readsReplica, !node.isPrimary || node.owners[slot] != node.number {
            let isImporting = migration.map { $0.slot == slot && $0.to == node.number } ?? false
            guard isImporting, calls[call].isAsking else {
                reply(call, .moved(to: node.owners[slot]), from: node)
                return
            }
        } else if let migration, migration.slot == slot, migration.from == node.number, migration.isKeyMoved {
            reply(call, .ask(to: migration.to), from: node)
            return
        }
        calls[call].isAsking = false
        calls[call].executions += 1
        calls[call].executedAt = now
        if calls[call].executions > 1 {
            violate(.executedOnce, "call \(call) (\(body)) is executed again, by n\(node.number)")
        }
        if owners[slot] != node.number, migration?.slot != slot { coverage.count(.minorityWrite) }
        if now > calls[call].deadline { coverage.count(.lateExecution) }
        let result = result(of: body, call, at: node)
        note("n\(node.number) call \(call) of g\(calls[call].gateway): \(describe(body)) -> \(describe(result))")
        failAfter(body, node)
        guard calls[call].isDurable else { return reply(call, result, from: node) }
        if mutant == .noWait {
            calls[call].isConfirmed = true
            return reply(call, result, from: node)
        }
        if node.confirmed == node.effects.count, node.isolation < 0 {
            calls[call].isConfirmed = true
            return reply(call, result, from: node)
        }
        coverage.count(.replyHeld)
        calls[call].heldReply = result
        node.waiting.append((call, node.effects.count))
        queue.push(.waitTimeout(call: call), at: now + Settings.waitBound)
    }

    /// Lets a server fail after a write, before or after its reply, and mostly before the write was replicated.
    private func failAfter(_ body: Call.Body, _ node: Node) {
        guard let trigger = settings.failsAfter else { return }
        switch (body, trigger) {
        case (.lease, .lease), (.save, .save), (.insert, .insert), (.remove, .remove), (.setCutoff, .cutoff),
            (.setMark, .mark):
            break
        default: return
        }
        guard random.chance(250) else { return }
        slowReplicationUntil[node.shard] = now + 1_500
        let time = now + random.between(5, 450)
        let fault: Fault =
            switch random.below(4) {
            case 0: .crashPrimary(shard: node.shard, restartsSoon: true)
            case 1: .freezePrimary(shard: node.shard)
            case 2: .isolatePrimary(shard: node.shard, gateways: 0)
            default: .crashPrimary(shard: node.shard, restartsSoon: false)
            }
        queue.push(.fault(fault), at: time)
        if random.chance(150) {
            queue.push(.fault(.crashGateway(random.below(settings.gateways))), at: time + random.between(0, 100))
        }
    }

    private func result(of body: Call.Body, _ call: Int, at node: Node) -> Reply {
        switch body {
        case .topology: return .unavailable
        case .read(let index):
            track(call, node)
            let record = record(index, at: node)
            if record.end != nil { return .ended }
            return record.session.map { .record($0, born: record.born) } ?? .missing
        case .readCutoff(let account):
            track(call, node)
            return .cutoff(node.data.cutoffs[account])
        case .lease(let index, let duration):
            var record = record(index, at: node)
            guard record.session != nil else { return .lease(.notFound) }
            guard now >= record.leaseEnd else { return .lease(.heldByOther) }
            record.fence += 1
            record.leaseEnd = now + duration.wholeMilliseconds
            write(.record(index, record), at: node, by: call, notifies: false)
            return .lease(.acquired(RefreshLease(fence: record.fence)))
        case .release(let index, let fence):
            var record = record(index, at: node)
            guard record.session != nil, record.fence == fence else { return .done }
            record.leaseEnd = 0
            write(.record(index, record), at: node, by: call, notifies: false)
            return .done
        case .save(let index, let update, let version, let fence, _):
            var record = record(index, at: node)
            guard let session = record.session else { return .save(.notFound) }
            guard record.fence == fence else { return .save(.staleLease) }
            guard session.version == version else { return .save(.versionConflict) }
            let next = session.refreshed(with: update)
            record.session = next
            write(.record(index, record), at: node, by: call)
            return .save(.saved(next))
        case .reject(let index, let version, let fence):
            let record = record(index, at: node)
            guard let session = record.session else { return .reject(.notFound) }
            guard record.fence == fence, session.version == version else { return .reject(.versionConflict) }
            end(index, .refreshRejected, at: node, by: call)
            return .reject(.ended)
        case .remove(let index):
            // Also without a record, which another gateway may write again.
            if record(index, at: node).end == nil { end(index, .signedOut, at: node, by: call) }
            return .done
        case .index(let account, let session):
            let cutoff = node.data.cutoffs[account].time
            write(.index(account, node.data.indexes[account] + [session]), at: node, by: call, notifies: false)
            return .born(max(now + node.skew, cutoff + 1))
        case .insert(let index, let session, let born):
            write(.record(index, Node.Record(session: session, born: born)), at: node, by: call)
            return .done
        case .setCutoff(let account, let keeps, let born, let time):
            let last = node.data.cutoffs[account]
            // A session that has ended earlier is not kept.
            let isActive = born > last.time || last.keeps == keeps || mutant == .cutoffKeepsEnded
            let cutoff = Cutoff(time: time ?? max(now + node.skew, last.time + 1), keeps: isActive ? keeps : -1)
            write(.cutoff(account, cutoff), at: node, by: call)
            return .cutoff(cutoff)
        case .list(let account): return .list(node.data.indexes[account])
        case .setMark(let mark):
            guard !node.data.marks[mark] else { return .changed(false) }
            write(.mark(mark, true), at: node, by: call, notifies: false)
            return .changed(true)
        case .countAttempt(let key, let time):
            let state = node.data.throttle[key]
            guard Settings.throttle.wait(state, now: time) == nil || mutant == .throttleIgnoresDelay else {
                return .changed(false)
            }
            let next = Settings.throttle.recordingAttempt(state, now: time)
            write(.throttle(key, next), at: node, by: call, notifies: false)
            return .changed(true)
        case .assertEnd, .assertRecord, .assertLease, .assertCutoff, .assertMark:
            coverage.count(assert(body, call, at: node) ? .endAsserted : .assertionIgnored)
            return .done
        }
    }

    /// Writes an entry of a gateway's journal, unless the server has the same or something newer.
    private func assert(_ body: Call.Body, _ call: Int, at node: Node) -> Bool {
        switch body {
        case .assertEnd(let index, let reason):
            guard record(index, at: node).end == nil else { return false }
            end(index, reason, at: node, by: call)
        case .assertRecord(let index, let journaled):
            var record = record(index, at: node)
            guard record.end == nil || mutant == .reinsertWinsOverEnd else { return false }
            if let session = record.session {
                guard session.version < journaled.session.version || mutant == .reassertOverwritesNewer else {
                    return false
                }
                coverage.count(.recordAsserted)
            } else {
                coverage.count(.recordInserted)
            }
            record.session = journaled.session
            record.born = journaled.born
            record.end = nil
            write(.record(index, record), at: node, by: call)
        case .assertLease(let index, let fence, let remaining):
            var record = record(index, at: node)
            guard record.session != nil, record.fence < fence else { return false }
            record.fence = fence
            record.leaseEnd = now + remaining
            coverage.count(.leaseAsserted)
            write(.record(index, record), at: node, by: call, notifies: false)
        case .assertCutoff(let account, let cutoff):
            guard node.data.cutoffs[account].time < cutoff.time else { return false }
            coverage.count(.cutoffAsserted)
            write(.cutoff(account, cutoff), at: node, by: call)
        case .assertMark(let mark):
            guard !node.data.marks[mark] else { return false }
            coverage.count(.markAsserted)
            write(.mark(mark, true), at: node, by: call, notifies: false)
        default: return false
        }
        return true
    }

    /// The record of a session. A server forgets after some time that a session has ended.
    private func record(_ index: Int, at node: Node) -> Node.Record {
        let record = node.data.records[index]
        guard record.end != nil, now > record.endedAt + Settings.tombstoneLife else { return record }
        return Node.Record()
    }

    private func end(_ index: Int, _ reason: SessionEndReason, at node: Node, by call: Int) {
        write(.record(index, Node.Record(end: reason, endedAt: now)), at: node, by: call)
    }

    private func track(_ call: Int, _ node: Node) {
        node.readers[calls[call].slot].append((calls[call].gateway, calls[call].link))
    }

    func write(_ effect: Node.Effect, at node: Node, by call: Int?, notifies: Bool = true) {
        node.effects.append((effect, node.data.inverse(of: effect), now))
        node.data.apply(effect)
        var delay = random.between(1, settings.replicationDelay)
        if slowReplicationUntil[node.shard] > now { delay += random.between(200, 1_500) }
        node.lastReplication = max(node.lastReplication, now + delay)
        queue.push(
            .replicate(from: node.number, stream: node.stream, effect: node.effects.count - 1),
            at: node.lastReplication)
        guard notifies, let call else { return }
        notify(calls[call].slot, from: node, writer: calls[call].isDurable ? nil : calls[call].gateway)
    }

    /// Reports a change to the gateways that have read the slot.
    func notify(_ slot: Int, from node: Node, writer: Int?) {
        for (gateway, link) in node.readers[slot] where gateway != writer {
            guard gateways[gateway].links[node.number].number == link else { continue }
            let time = max(now + random.between(1, 6), gateways[gateway].links[node.number].lastReceived + 1)
            gateways[gateway].links[node.number].lastReceived = time
            queue.push(.push(gateway: gateway, node: node.number, link: link, slot: slot), at: time)
        }
        node.readers[slot].removeAll()
    }

    func replicate(from node: Node, _ stream: Int, _ effect: Int) {
        let replica = nodes[node.number ^ 1]
        guard node.isUp, node.stream == stream, replica.isUp, replica.followed == stream, !replica.isPrimary else {
            return
        }
        var later = max(node.frozenUntil, replica.frozenUntil)
        if node.isolation >= 0 { later = max(later, isolations[node.isolation] + 1) }
        if later > now {
            queue.push(.replicate(from: node.number, stream: stream, effect: effect), at: later)
            return
        }
        replica.data.apply(node.effects[effect].effect)
        queue.push(.confirm(node: node.number, stream: stream, effect: effect), at: now + random.between(1, 4))
    }

    func confirm(_ node: Node, _ stream: Int, _ effect: Int) {
        guard node.isUp, node.stream == stream, node.isolation < 0, node.frozenUntil <= now else { return }
        node.confirmed = max(node.confirmed, effect + 1)
        while let first = node.waiting.first, first.count <= effect + 1 {
            node.waiting.removeFirst()
            guard let held = calls[first.call].heldReply else { continue }
            coverage.count(.waitConfirmed)
            calls[first.call].heldReply = nil
            calls[first.call].isConfirmed = true
            reply(first.call, held, from: node)
        }
    }

    func waitTimedOut(_ call: Int) {
        let node = nodes[calls[call].node]
        guard let held = calls[call].heldReply, node.isUp else { return }
        if node.frozenUntil > now {
            queue.push(.waitTimeout(call: call), at: node.frozenUntil)
            return
        }
        coverage.count(.waitTimedOut)
        calls[call].heldReply = nil
        reply(call, held, from: node)
    }
}
