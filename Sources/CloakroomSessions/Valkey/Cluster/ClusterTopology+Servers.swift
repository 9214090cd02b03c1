import CloakroomCore
import NIOCore

extension ClusterTopology {
    mutating func connect(_ id: NodeID) {
        guard let member = members[id], member.link == .idle else { return }
        members[id]?.link = .connecting
        actions.append(.connect(member.node))
    }

    mutating func ask(_ id: NodeID, _ now: NIODeadline) {
        guard let member = members[id] else { return }
        members[id]?.isAsked = true
        members[id]?.askedAt = now
        let interval = now < hurriesUntil ? Self.hurriedInterval : Self.questionInterval
        let next = now + jittered(interval)
        members[id]?.nextQuestionAt = next
        actions.append(.ask(member.node.address))
    }

    /// Moves the next question to a primary forward.
    mutating func askSoon(_ id: NodeID, _ now: NIODeadline) {
        guard let member = members[id], member.link == .ready else { return }
        let soon = max(now, member.askedAt) + jittered(Self.shortestInterval)
        members[id]?.nextQuestionAt = min(member.nextQuestionAt, soon)
    }

    /// Asks the seeds while no majority of the primaries is reachable.
    mutating func checkIsolation(_ now: NIODeadline) {
        let ready = voters.count { members[$0]?.link == .ready }
        guard 2 * ready <= voters.count else {
            isolatedSince = nil
            return
        }
        let since = isolatedSince ?? now
        isolatedSince = since
        guard !seed.isAsked, seed.retryAt <= now, voters.isEmpty || since + Self.isolationPeriod <= now else { return }
        let addresses = seeds + members.keys.sorted().compactMap { members[$0]?.node.address } + replicas
        seed.isAsked = true
        seed.next = (seed.next + 1) % addresses.count
        actions.append(.askSeed(addresses[(seed.next + addresses.count - 1) % addresses.count]))
    }

    mutating func seedFailed(_ now: NIODeadline) {
        seed.failures += 1
        // Other addresses are tried immediately, once.
        let known = seeds.count + members.count + replicas.count
        let isFirstRound = seed.failures < known
        if !isFirstRound { hadFailure = true }
        seed.retryAt =
            isFirstRound
            ? now
            : now + TimeAmount(Self.seedDelays.delay(afterFailures: seed.failures - known + 1, random: nextRandom()))
    }

    mutating func owners(in report: ClusterSlots) -> [NodeID] {
        if ids.count > 4 * ClusterSlots.maximumNodes { forgetUnused() }
        reuseNumbers()
        let names = report.primaries.map { id(of: $0.address) }
        for (id, primary) in zip(names, report.primaries) where primary.name != nil {
            members[id]?.node.name = primary.name
        }
        // Read once: there are 16,384 slots.
        let (none, noNode) = (ClusterSlots.none, Self.noNode)
        return report.owners.map { $0 == none ? noNode : names[Int($0)] }
    }

    /// Begins again with the first number before there is none left: servers that name others in each report would use
    /// them up within days. Numbers of members stay in use.
    mutating func reuseNumbers() {
        guard lastID > NodeID.max - 4 * NodeID(ClusterSlots.maximumNodes) else { return }
        forgetUnused()
        lastID = 0
    }

    mutating func id(of address: HostAndPort) -> NodeID {
        if let id = ids[address] { return id }
        repeat { lastID += 1 } while members[lastID] != nil
        ids[address] = lastID
        return lastID
    }

    mutating func member(for node: ClusterNode, _ now: NIODeadline) -> NodeID {
        let id = id(of: node.address)
        if members[id] == nil {
            members[id] = Member(node: node, retryAt: now, nextQuestionAt: now, lastUsedAt: now)
        } else if let name = node.name {
            members[id]?.node.name = name
        }
        return id
    }

    /// The member for a server that another one names; `nil` if there are too many.
    mutating func memberIfRoom(
        for node: ClusterNode, limit: Int = Self.maximumLinks, _ now: NIODeadline
    ) -> NodeID? {
        if let id = ids[node.address], members[id] != nil { return member(for: node, now) }
        guard members.count < limit else { return nil }
        return member(for: node, now)
    }

    /// The member for a server to which another one redirects; `nil` if there are too many, or too many new ones.
    mutating func memberIfRoom(for address: HostAndPort, _ now: NIODeadline) -> NodeID? {
        if let id = ids[address], members[id] != nil { return id }
        guard members.keys.count(where: { !voters.contains($0) }) < Self.maximumUnconfirmed else { return nil }
        if additions.since + .seconds(1) <= now { additions = (now, 0) }
        guard additions.count < Self.maximumAdditions else { return nil }
        additions.count += 1
        return memberIfRoom(for: ClusterNode(address: address), now)
    }

    mutating func forget(_ id: NodeID) {
        if let member = members.removeValue(forKey: id) {
            ids[member.node.address] = nil
            actions.append(.disconnect(member.node.address))
        }
        for other in members.keys { members[other]?.confirmations[id] = nil }
    }

    /// Forgets the names of servers that are not members. Reports name them by number, so these are requested again.
    mutating func forgetUnused() {
        ids = ids.filter { members[$0.value] != nil }
        for id in members.keys { members[id]?.view = nil }
    }

    /// An interval of 75 to 125 %.
    mutating func jittered(_ interval: TimeAmount) -> TimeAmount {
        .nanoseconds(interval.nanoseconds * 3 / 4 + Int64(nextRandom() >> 33) % max(1, interval.nanoseconds / 2))
    }

    /// SplitMix64.
    mutating func nextRandom() -> UInt64 {
        random &+= 0x9e37_79b9_7f4a_7c15
        var mixed = (random ^ random >> 30) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ mixed >> 27) &* 0x94d0_49bb_1331_11eb
        return mixed ^ mixed >> 31
    }
}
