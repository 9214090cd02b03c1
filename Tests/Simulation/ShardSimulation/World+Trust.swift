import CloakroomCore

/// Links, the topology that gateways believe, trust in partitions, and the repetition of the journal.
extension World {
    func beginLink(_ gateway: Gateway, _ node: Int, after delay: Int64) {
        gateway.links[node].number += 1
        gateway.links[node].state = .connecting
        queue.push(.connect(gateway: gateway.number, node: node, link: gateway.links[node].number), at: now + delay)
    }

    func connect(_ gateway: Gateway, _ node: Int, _ link: Int) {
        guard gateway.isUp, gateway.links[node].number == link else { return }
        let server = nodes[node]
        guard server.isUp, server.frozenUntil <= now, cutUntil(gateway, server) == 0 else {
            for slot in gateway.partitions.indices where gateway.partitions[slot].owner == node {
                gateway.partitions[slot].hadOutage = true
            }
            queue.push(.connect(gateway: gateway.number, node: node, link: link), at: now + Settings.reconnect)
            return
        }
        gateway.links[node].state = .ready
        gateway.links[node].readyAt = now
        gateway.links[node].lastSent = now
        gateway.links[node].lastReceived = now
        // The new link is trusted once a majority has confirmed its slots.
        for other in gateway.links.indices where gateway.links[other].state == .ready { ask(gateway, other) }
    }

    func dropLink(_ gateway: Gateway, _ node: Int) {
        note("g\(gateway.number) loses its link to n\(node)")
        gateway.views[node] = nil
        for slot in gateway.partitions.indices where gateway.partitions[slot].owner == node {
            distrust(gateway, slot)
            gateway.partitions[slot].hadOutage = true
        }
        beginLink(gateway, node, after: random.between(20, Settings.reconnect))
    }

    func heartbeat(_ gateway: Gateway, _ process: Int) {
        guard gateway.isUp, gateway.process == process else { return }
        guard now < end + 1_000 || refreshes.indices.contains(where: isAlive) else { return }
        gateway.trimJournal(now, mutant)
        for node in gateway.links.indices where gateway.links[node].state == .ready { ask(gateway, node) }
        evaluate(gateway)
        queue.push(
            .heartbeat(gateway: gateway.number, process: process),
            at: now + Settings.heartbeat + random.between(-100, 100))
    }

    func ask(_ gateway: Gateway, _ node: Int) {
        send(.topology, slot: 0, to: node, from: gateway, owner: .topology, word: 0)
    }

    func topologyReceived(_ gateway: Gateway, _ call: Int, _ reply: Reply) {
        guard case .topology(let owners, let isPrimary) = reply else { return }
        let askedAt = calls[call].sentAt
        let node = calls[call].node
        if let view = gateway.views[node], view.askedAt > askedAt { return }
        gateway.views[node] = Gateway.View(askedAt: askedAt, owners: owners, isPrimary: isPrimary)
        evaluate(gateway)
    }

    /// Compares what the gateway believes with the views of the servers, and trusts the slots that are ready.
    func evaluate(_ gateway: Gateway) {
        for slot in gateway.partitions.indices {
            // Servers that have not learned of a change yet do not revert it.
            let since = max(now - Settings.topologyTrust, gateway.partitions[slot].changedAt + 200)
            let named = gateway.majorityOwner(of: slot, since: since)
            if let named, named != gateway.partitions[slot].owner { changeOwner(gateway, slot, to: named) }
        }
        let before = gateway.partitions.map(\.confirmedAt)
        gateway.updateConfirmations(now)
        for slot in gateway.partitions.indices {
            let partition = gateway.partitions[slot]
            if partition.isTrusted {
                // Entries from before the doubt may have missed changes.
                let wasDoubted = before[slot] + Settings.topologyTrust < now
                if wasDoubted, gateway.trusts(slot, now, nil), mutant != .trustsInDoubt {
                    gateway.partitions[slot].word += 2
                    flushParked(gateway, slot)
                }
                continue
            }
            let link = gateway.links[partition.owner]
            guard link.state == .ready, partition.confirmedAt >= link.readyAt else { continue }
            guard partition.needsAssertion else {
                trust(gateway, slot)
                continue
            }
            guard partition.asserting == nil else { continue }
            if mutant == .reassertAfterTrust {
                gateway.partitions[slot].needsAssertion = false
                queue.push(
                    .lateAssertion(gateway: gateway.number, process: gateway.process, slot: slot),
                    at: now + random.between(300, 1_500))
                trust(gateway, slot)
            } else {
                assertJournal(gateway, slot)
            }
        }
    }

    func changeOwner(_ gateway: Gateway, _ slot: Int, to node: Int) {
        note("g\(gateway.number) believes that slot \(slot) belongs to n\(node)")
        distrust(gateway, slot)
        gateway.partitions[slot].previous = gateway.partitions[slot].owner
        gateway.partitions[slot].owner = node
        gateway.partitions[slot].changedAt = now
        gateway.partitions[slot].confirmedAt = -1_000_000
    }

    private func distrust(_ gateway: Gateway, _ slot: Int) {
        gateway.partitions[slot].needsAssertion = true
        gateway.partitions[slot].asserting = nil
        gateway.partitions[slot].assertion += 1
        if gateway.partitions[slot].isTrusted, mutant != .trustsLostPartition { gateway.partitions[slot].word += 1 }
    }

    private func trust(_ gateway: Gateway, _ slot: Int) {
        let partition = gateway.partitions[slot]
        gateway.partitions[slot].word += 1
        gateway.partitions[slot].trustedAt = now
        coverage.count(.trusted)
        var hadOutage = partition.hadOutage
        // A server that hands a slot over knows the new owner and is a primary still. Otherwise it was replaced.
        if let previous = partition.previous, previous != partition.owner {
            let view = gateway.views[previous]
            let isMigrated = view.map { $0.isPrimary && $0.owners[slot] == partition.owner } ?? false
            if !isMigrated { hadOutage = true }
        }
        if hadOutage, mutant != .graceForgotten {
            coverage.count(.grace)
            gateway.partitions[slot].graceEnd = now + Settings.grace
        }
        note("g\(gateway.number) trusts slot \(slot) at n\(partition.owner)\(hadOutage ? " after an outage" : "")")
        gateway.partitions[slot].hadOutage = false
        gateway.partitions[slot].previous = nil
        flushParked(gateway, slot)
    }

    private func flushParked(_ gateway: Gateway, _ slot: Int) {
        let parked = gateway.partitions[slot].parked
        gateway.partitions[slot].parked = []
        for call in parked where !calls[call].isClosed && now < calls[call].deadline { transmitToOwner(call) }
    }

    /// Writes the journal's entries of a slot again.
    func assertJournal(_ gateway: Gateway, _ slot: Int) {
        gateway.trimJournal(now, mutant)
        let bodies = journal(of: gateway, slot)
        guard !bodies.isEmpty else {
            gateway.partitions[slot].needsAssertion = false
            if !gateway.partitions[slot].isTrusted { trust(gateway, slot) }
            return
        }
        gateway.partitions[slot].assertion += 1
        gateway.partitions[slot].asserting = bodies.count
        gateway.partitions[slot].hasAssertionFailed = false
        let partition = gateway.partitions[slot]
        for body in bodies {
            send(
                body, slot: slot, to: partition.owner, from: gateway, owner: .assertion(slot: slot),
                word: partition.assertion)
        }
    }

    private func journal(of gateway: Gateway, _ slot: Int) -> [Call.Body] {
        if mutant == .noReassertion { return [] }
        if mutant == .reassertsOnlyAfterLoss {
            let partition = gateway.partitions[slot]
            guard partition.hadOutage, partition.previous ?? partition.owner != partition.owner else { return [] }
        }
        var bodies: [Call.Body] = []
        for entry in gateway.ends where entry.session == slot { bodies.append(.assertEnd(slot, entry.reason)) }
        if slot < settings.allSessions {
            if let record = gateway.saved[slot] { bodies.append(.assertRecord(slot, record)) }
            if mutant != .leaseNotJournaled {
                for lease in gateway.leases where lease.session == slot && lease.end > now {
                    bodies.append(.assertLease(slot, fence: lease.fence, remaining: lease.end - now))
                }
            }
        } else {
            for entry in gateway.ownCutoffs where entry.account == slot - settings.allSessions {
                bodies.append(.assertCutoff(entry.account, entry.cutoff))
            }
            for entry in gateway.marks where self.slot(mark: entry.mark) == slot {
                bodies.append(.assertMark(entry.mark))
            }
        }
        return bodies
    }

    func asserted(_ gateway: Gateway, _ slot: Int, _ call: Int, _ reply: Reply) {
        guard gateway.partitions[slot].assertion == calls[call].word, let left = gateway.partitions[slot].asserting
        else { return }
        if case .done = reply {} else { gateway.partitions[slot].hasAssertionFailed = true }
        gateway.partitions[slot].asserting = left - 1
        guard left == 1 else { return }
        gateway.partitions[slot].asserting = nil
        // After a failure the next heartbeat tries again.
        guard !gateway.partitions[slot].hasAssertionFailed else { return }
        gateway.partitions[slot].needsAssertion = false
        evaluate(gateway)
    }

    /// A server reports a change of a slot: what is cached is forgotten.
    func pushed(_ slot: Int, from node: Int, _ link: Int, to gateway: Gateway) {
        guard gateway.isUp, gateway.links[node].number == link else { return }
        let cut = cutUntil(gateway, nodes[node])
        if cut > 0 {
            gateway.links[node].lastReceived = max(gateway.links[node].lastReceived, cut + 1)
            queue.push(
                .push(gateway: gateway.number, node: node, link: link, slot: slot), at: max(cut, now) + 1)
        } else if slot < settings.allSessions {
            gateway.sessions[slot] = nil
        } else if slot < self.slot(mark: 0) {
            gateway.cutoffs[slot - settings.allSessions] = nil
        }
    }
}
