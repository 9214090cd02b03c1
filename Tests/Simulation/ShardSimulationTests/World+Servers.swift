import CloakroomCore
import NIOCore
import TestSupport

@testable import CloakroomSessions

/// The execution of commands, replication, and `WAIT`.
extension World {
    func execute(_ call: Int, at node: Node) {
        let slot = calls[call].slot
        let body = calls[call].body
        if case .topology = body {
            reply(call, .topology(node.owners), from: node)
            return
        }
        if case .time = body { return reply(call, .time(node.time(now)), from: node) }
        guard !node.isClusterDown(now, timeout: settings.nodeTimeout) else {
            coverage.count(.clusterDown)
            reply(call, .clusterDown, from: node)
            return
        }
        if !node.isPrimary || node.owners[slot] != node.number {
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
        guard now >= node.rejectsWritesUntil || !body.isWrite else { return reply(call, .unavailable, from: node) }
        calls[call].executions += 1
        calls[call].executedAt = now
        if calls[call].executions > 1 {
            violate(.executedOnce, "call \(call) (\(describe(body))) is executed again, by n\(node.number)")
        }
        if owners[slot] != node.number, migration?.slot != slot { coverage.count(.minorityWrite) }
        if now > calls[call].deadline { coverage.count(.lateExecution) }
        failAfter(body, node)
        var source = node
        if mutant == .readsReplica, case .read = body { source = nodes[node.number ^ 1] }
        let result = result(of: body, call, at: source)
        note("n\(node.number) call \(call) of g\(calls[call].gateway): \(describe(body)) -> \(describe(result))")
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

    /// Lets a server fail after a write that it is about to execute, before or after its reply, and mostly before the write
    /// was replicated.
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
        case .topology, .time: return .unavailable
        case .read(let index):
            track(call, node)
            let record = record(index, at: node)
            if record.end != nil { return .ended }
            return record.session.map { .record($0, born: record.born) } ?? .missing
        case .readCutoff(let account):
            track(call, node)
            return .cutoff(node.data.cutoffs[account].stored)
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
            let record = record(index, at: node)
            if record.end == nil { end(index, .signedOut, at: node, by: call) }
            return .removed(record.session != nil)
        case .index(let account, let session):
            let cutoff = node.data.cutoffs[account]
            let born = max(node.time(now), cutoff.time + 1, (cutoff.request?.time ?? 0) + 1)
            var index = node.data.indexes[account]
            index.sessions.append(session)
            index.latest = max(index.latest, born)
            write(.index(account, index), at: node, by: call, notifies: false)
            return .born(born)
        case .insert(let index, let session, let born):
            write(.record(index, Node.Record(session: session, born: born)), at: node, by: call)
            return .done
        case .setCutoff(let account, let kept, let time):
            var cutoff = node.data.cutoffs[account].set(
                keeping: kept, latest: node.data.indexes[account].latest, now: node.time(now),
                keepsEnded: mutant == .cutoffKeepsEnded)
            if let time { cutoff.time = time }
            write(.cutoff(account, cutoff), at: node, by: call)
            return .cutoff(cutoff.stored)
        case .list(let account): return .list(node.data.indexes[account].sessions)
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
        case .repeated(let repeated):
            let change = write(repeated, call, at: node)
            coverage.count(change > 0 ? .endAsserted : .assertionIgnored)
            return .number(change)
        }
    }

    /// Executes a script that writes an entry of a gateway's journal, unless the server has the same or something newer.
    /// - Returns: The result of the script.
    private func write(_ repeated: ReassertionCall, _ call: Int, at node: Node) -> Int64 {
        let slot = calls[call].slot
        var arguments = repeated.arguments.map(Argument.init)[...]
        func next() -> Argument { arguments.popFirst() ?? Argument(.integer(0)) }
        switch repeated.script.name {
        case ReassertionScripts.end.name:
            guard record(slot, at: node).end == nil else { return 0 }
            end(slot, SessionEndReason(rawValue: next().text) ?? .signedOut, at: node, by: call)
            return 1
        case ReassertionScripts.record.name: return writeRecord(Array(repeated.arguments), call, at: node)
        case ReassertionScripts.lease.name:
            var record = record(slot, at: node)
            let fence = UInt64(next().number)
            guard record.session != nil, record.fence < fence || record.fence == fence && record.leaseEnd <= now else {
                return 0
            }
            record.fence = fence
            record.leaseEnd = now + next().number
            coverage.count(.leaseAsserted)
            write(.record(slot, record), at: node, by: call, notifies: false)
        case ReassertionScripts.index.name:
            let account = slot - settings.allSessions
            guard let id = SessionID(next().text),
                let session = (0..<settings.allSessions).first(where: { Names.key($0).id == id }),
                !node.data.indexes[account].sessions.contains(session)
            else { return 0 }
            var index = node.data.indexes[account]
            index.sessions.append(session)
            write(.index(account, index), at: node, by: call, notifies: false)
        case ReassertionScripts.cutoff.name:
            let account = slot - settings.allSessions
            var cutoff = Cutoff(time: next().number, keeps: SessionID(next().text))
            _ = (next(), next())
            cutoff.birth = Int64(next().text)
            guard let changed = node.data.cutoffs[account].repeated(cutoff) else { return 0 }
            coverage.count(.cutoffAsserted)
            write(.cutoff(account, changed), at: node, by: call)
        case ReassertionScripts.cutoffRequest.name:
            let account = slot - settings.allSessions
            guard let changed = node.data.cutoffs[account].requested(next().number, keeping: SessionID(next().text))
            else { return 0 }
            coverage.count(.cutoffRequestAsserted)
            write(.cutoff(account, changed), at: node, by: call)
        default:
            let mark = slot - self.slot(mark: 0)
            guard !node.data.marks[mark] else { return 0 }
            coverage.count(.markAsserted)
            write(.mark(mark, true), at: node, by: call, notifies: false)
        }
        return 1
    }

    private func writeRecord(_ arguments: [ValkeyCommand.Part], _ call: Int, at node: Node) -> Int64 {
        let slot = calls[call].slot
        let values = (arguments[6...] + ["u", arguments[3]]).map { RESPValue.blob(Argument($0).bytes) }
        guard let written = RecordEncoding.record(values, id: Names.key(slot).id) else { return 0 }
        var record = record(slot, at: node)
        guard record.end == nil || mutant == .reinsertWinsOverEnd else { return 0 }
        let isNew = record.session == nil
        if let session = record.session {
            guard session.version < written.version || mutant == .reassertOverwritesNewer else { return 0 }
            coverage.count(.recordAsserted)
        } else {
            coverage.count(.recordInserted)
        }
        record.session = versions[Int(written.contents.reduce(0) { $0 << 8 | UInt64($1) })]
        record.born = written.birth.account ?? 0
        record.fence = max(record.fence, UInt64(Argument(arguments[2]).number))
        record.end = nil
        write(.record(slot, record), at: node, by: call)
        return isNew ? 2 : 1
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

/// An argument of a script.
private struct Argument {
    let part: ValkeyCommand.Part

    init(_ part: ValkeyCommand.Part) { self.part = part }

    var text: String {
        switch part {
        case .text(let text): text
        case .integer(let number): String(number)
        case .bytes: ""
        }
    }
    var number: Int64 { Int64(text) ?? 0 }
    var bytes: ByteBuffer {
        if case .bytes(let bytes) = part { ByteBuffer(bytes: bytes) } else { ByteBuffer(string: text) }
    }
}
