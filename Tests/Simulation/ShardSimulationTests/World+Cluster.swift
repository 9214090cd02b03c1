import CloakroomCore
import TestSupport

/// Failures of servers and gateways, elections, and the migration of slots.
extension World {
    func inject(_ fault: Fault) {
        switch fault {
        case .crashPrimary(let shard, let restartsSoon):
            guard isWhole, isHealthy(shard) else { return }
            crash(nodes[primaries[shard]], restartsSoon: restartsSoon)
        case .freezePrimary(let shard):
            guard isWhole, isHealthy(shard) else { return }
            let node = nodes[primaries[shard]]
            coverage.count(.primaryFroze)
            node.frozenUntil = now + random.between(100, settings.nodeTimeout + (random.chance(300) ? 7_000 : 2_000))
            note("n\(node.number) freezes until \(node.frozenUntil)")
            failed(node)
            if random.chance(300) {
                let time = max(now, node.frozenUntil - random.between(100, 2_500))
                queue.push(.fault(.crashGateway(random.below(settings.gateways))), at: time)
            }
            queue.push(.wake(node: node.number), at: node.frozenUntil)
        case .isolatePrimary(let shard, let gateways, let isLong):
            guard isWhole, isHealthy(shard) else { return }
            coverage.count(.primaryIsolated)
            let most = settings.nodeTimeout + (random.chance(300) ? 8_000 : 2_500)
            isolate(nodes[primaries[shard]], gateways, until: now + (isLong ? 9_000 : random.between(300, most)))
        case .isolateGateway(let gateway):
            guard gateways[gateway].isolation < 0 else { return }
            coverage.count(.gatewayIsolated)
            isolate(nil, 1 << gateway, until: now + random.between(100, 5_000))
        case .crashReplica(let shard):
            guard isWhole, isHealthy(shard) else { return }
            let replica = nodes[primaries[shard] ^ 1]
            coverage.count(.replicaCrashed)
            replica.isUp = false
            replica.followed = -1
            queue.push(.restart(node: replica.number), at: now + random.between(300, 3_000))
        case .slowReplication(let shard):
            coverage.count(.slowReplication)
            slowReplicationUntil[shard] = now + random.between(100, 2_000)
        case .crashGateway(let gateway): crash(gateways[gateway])
        case .pauseGateway(let gateway): pause(gateways[gateway])
        case .migrate(let slot, let shard): migrate(slot, to: shard)
        case .signOut(let session): signOut(session)
        case .signOutEverywhere(let account, let keeps): signOutEverywhere(account, keeping: keeps)
        }
    }

    /// Whether no shard has a failure: without a majority of the primaries there is no election.
    private var isWhole: Bool {
        (0..<Settings.shards).allSatisfy { nodes[primaries[$0]].isReachable(now) }
    }

    /// Whether both servers of a shard are in order, so that one failure loses no more than the replication's delay.
    private func isHealthy(_ shard: Int) -> Bool {
        let primary = nodes[primaries[shard]]
        let replica = nodes[primary.number ^ 1]
        if let migration, nodes[migration.from].shard == shard || nodes[migration.to].shard == shard { return false }
        return primary.isReachable(now) && replica.isReachable(now) && replica.followed == primary.stream
            && primary.isPrimary && !replica.isPrimary && now >= guardedUntil[shard]
    }

    private func failed(_ node: Node) {
        node.failures += 1
        for slot in owners.indices where owners[slot] == node.number { failedAt[slot] = now }
        queue.push(
            .election(shard: node.shard, failed: node.number, failure: node.failures),
            at: now + settings.nodeTimeout + random.between(100, 600))
    }

    private func crash(_ node: Node, restartsSoon: Bool) {
        coverage.count(.primaryCrashed)
        note("n\(node.number) crashes")
        node.isUp = false
        node.failedAt = now
        node.waiting.removeAll()
        node.forgetReaders()
        failed(node)
        for gateway in gateways where cutUntil(gateway, node) == 0 {
            let link = gateway.links[node.number].number
            queue.push(
                .linkReset(gateway: gateway.number, node: node.number, link: link), at: now + random.between(1, 5))
        }
        let delay =
            restartsSoon
            ? random.between(20, settings.nodeTimeout - 100)
            : settings.nodeTimeout + random.between(1_000, 4_000)
        queue.push(.restart(node: node.number), at: now + delay)
    }

    func restart(_ node: Node) {
        node.isUp = true
        guard primaries[node.shard] == node.number else {
            gossip(node)
            return
        }
        // Still the primary: the writes that were not in its file are lost, also from its replica.
        coverage.count(.primaryRestarted)
        let since = node.failedAt - random.between(0, Settings.unsynced)
        var lost = 0
        while let last = node.effects.last, last.at > since {
            node.data.apply(last.inverse)
            node.effects.removeLast()
            lost += 1
        }
        note("n\(node.number) restarts without \(lost) writes")
        if lost > 0 {
            coverage.count(.unsyncedWritesLost)
            for slot in owners.indices where owners[slot] == node.number {
                lostAt[slot] = now
                losses[slot] += 1
            }
        }
        node.failures += 1
        node.beginStream(node.stream + 1)
        nodes[node.number ^ 1].synchronize(with: node)
    }

    func elect(_ shard: Int, _ failed: Node, _ failure: Int) {
        let replica = nodes[failed.number ^ 1]
        guard failed.failures == failure, primaries[shard] == failed.number, !failed.isReachable(now),
            replica.isReachable(now), replica.followed == failed.stream
        else { return }
        coverage.count(.promoted)
        if failed.confirmed < failed.effects.count { coverage.count(.writesDiscarded) }
        note("n\(replica.number) is promoted, \(failed.effects.count - failed.confirmed) writes may be lost")
        primaries[shard] = replica.number
        if settings.scenario == .rejectedWrites { replica.rejectsWritesUntil = now + Settings.rejection }
        for slot in owners.indices where owners[slot] == failed.number {
            owners[slot] = replica.number
            // Before, no gateway can repeat its writes.
            promotedAt[slot] = max(now, replica.rejectsWritesUntil)
            losses[slot] += 1
        }
        replica.isPrimary = true
        replica.owners = owners
        replica.beginStream(failed.stream + 1)
        spreadTopology()
    }

    private func spreadTopology() {
        for node in nodes { queue.push(.gossip(node: node.number), at: now + random.between(5, 100)) }
    }

    /// A server learns what the majority agrees on. It learns again after a failure.
    func gossip(_ node: Node) {
        guard node.isUp, node.isolation < 0 else { return }
        guard node.frozenUntil <= now else { return }
        node.owners = owners
        node.isolatedSince = nil
        let primary = nodes[primaries[node.shard]]
        if node.isPrimary, primary !== node {
            coverage.count(.demoted)
            note("n\(node.number) is a replica now")
            node.isPrimary = false
        }
        if !node.isPrimary, node.followed != primary.stream, primary.isUp { node.synchronize(with: primary) }
    }

    private func isolate(_ node: Node?, _ members: Int, until end: Int64) {
        let number = isolations.count
        isolations.append(end)
        note("isolation \(number) of \(node.map { "n\($0.number) and " } ?? "")gateways \(members) until \(end)")
        if let node {
            node.isolation = number
            node.isolatedSince = now
            failed(node)
        }
        for gateway in gateways where members & (1 << gateway.number) != 0 && gateway.isolation < 0 {
            gateway.isolation = number
            gateway.undisturbedSince = .max / 2
        }
        queue.push(.heal(isolation: number), at: end)
    }

    func heal(_ number: Int) {
        note("isolation \(number) ends")
        for gateway in gateways where gateway.isolation == number {
            gateway.isolation = -1
            gateway.undisturbedSince = max(now, gateway.pausedUntil) + Settings.reconnect
        }
        for node in nodes where node.isolation == number {
            node.isolation = -1
            // A server that has given up accepts commands once it knows the topology.
            if !node.isClusterDown(now, timeout: settings.nodeTimeout) { node.isolatedSince = nil }
            queue.push(.gossip(node: node.number), at: now + random.between(1, 1_000))
        }
    }
}

/// Slots that change their shard, and processes of gateways that come and go.
extension World {
    private func migrate(_ slot: Int, to shard: Int) {
        let (from, to) = (owners[slot], primaries[shard])
        guard migration == nil, from != to, isWhole, isHealthy(shard), isHealthy(nodes[from].shard) else { return }
        note("slot \(slot) begins to migrate from n\(from) to n\(to)")
        migration = Migration(slot: slot, from: from, to: to)
        let moved = now + random.between(20, 400)
        queue.push(.moveKey, at: moved)
        queue.push(.assignSlot, at: moved + random.between(20, 400))
    }

    func moveKey() {
        guard let moving = migration else { return }
        let (slot, from, to) = (moving.slot, nodes[moving.from], nodes[moving.to])
        migration?.isKeyMoved = true
        if slot < settings.allSessions {
            write(.record(slot, from.data.records[slot]), at: to, by: nil)
            write(.record(slot, Node.Record()), at: from, by: nil)
        } else if slot >= self.slot(throttleKey: 0) {
            let key = slot - self.slot(throttleKey: 0)
            write(.throttle(key, from.data.throttle[key]), at: to, by: nil)
            write(.throttle(key, nil), at: from, by: nil)
        } else if slot >= self.slot(mark: 0) {
            let mark = slot - self.slot(mark: 0)
            write(.mark(mark, from.data.marks[mark]), at: to, by: nil)
            write(.mark(mark, false), at: from, by: nil)
        } else {
            let account = slot - settings.allSessions
            write(.cutoff(account, from.data.cutoffs[account]), at: to, by: nil)
            write(.index(account, from.data.indexes[account]), at: to, by: nil)
            write(.cutoff(account, Cutoff()), at: from, by: nil)
        }
        // Some servers report keys that they hand over, and some do not.
        if random.chance(500) { notify(slot, from: from, writer: nil) } else { from.readers[slot].removeAll() }
        note("the key of slot \(slot) has moved")
    }

    func assignSlot() {
        guard let moved = migration else { return }
        coverage.count(.slotMigrated)
        note("slot \(moved.slot) belongs to n\(moved.to)")
        owners[moved.slot] = moved.to
        nodes[moved.from].owners[moved.slot] = moved.to
        nodes[moved.to].owners[moved.slot] = moved.to
        failedAt[moved.slot] = -100_000
        migration = nil
        // The moved key may not be replicated yet, and no gateway's journal holds it.
        for node in [moved.from, moved.to] { guardedUntil[nodes[node].shard] = now + 4_000 }
        spreadTopology()
    }

    func start(_ gateway: Gateway) {
        guard !gateway.isUp else { return }
        processes.append((true, gateway.number))
        // The first seed names the owners, whether it is right or not.
        let known = nodes.filter { $0.isUp && $0.frozenUntil <= now && cutUntil(gateway, $0) == 0 }
        var first = known.isEmpty ? nil : known[random.below(known.count)]
        if random.chance(500), let outdated = known.first(where: { $0.owners != owners }) { first = outdated }
        let seeds = (first.map { [Settings.addresses[$0.number]] } ?? []) + Settings.addresses
        gateway.start(processes.count - 1, settings, seeds: seeds, random: random.next(), now: now, mutant)
        note("g\(gateway.number) starts as process \(gateway.process)")
        queue.push(.tick(gateway: gateway.number, process: gateway.process), at: now + 1)
    }

    private func crash(_ gateway: Gateway) {
        guard gateway.isUp else { return }
        coverage.count(.gatewayCrashed)
        note("g\(gateway.number) crashes")
        gateway.isUp = false
        gateway.inbox = []
        gateway.pausedUntil = 0
        processes[gateway.process].isAlive = false
        queue.push(.start(gateway: gateway.number), at: now + random.between(100, 3_000))
    }

    private func pause(_ gateway: Gateway) {
        guard gateway.isUp, gateway.pausedUntil <= now else { return }
        coverage.count(.gatewayPaused)
        gateway.pausedUntil = now + random.between(50, 5_000)
        gateway.undisturbedSince = max(gateway.undisturbedSince, gateway.pausedUntil)
        note("g\(gateway.number) pauses until \(gateway.pausedUntil)")
        queue.push(.resume(gateway: gateway.number), at: gateway.pausedUntil)
    }

    func resume(_ gateway: Gateway) {
        guard gateway.pausedUntil <= now else { return }
        let inbox = gateway.inbox
        gateway.inbox = []
        for event in inbox { handle(event) }
    }
}
