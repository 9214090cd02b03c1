import CloakroomCore
import NIOCore
import TestSupport

@testable import CloakroomSessions

/// Carries out what ``ClusterTopology`` decides, as the gateway's coordinator does.
extension World {
    /// The virtual time in the clocks that the values of the product use. None of their times is 0, which means never.
    static func deadline(_ time: Int64) -> NIODeadline { .uptimeNanoseconds(UInt64(1_000_000 + time) * 1_000_000) }
    private static let origin = ContinuousClock.now
    var deadline: NIODeadline { Self.deadline(now) }
    var instant: ContinuousClock.Instant { instant(at: now) }
    func instant(at time: Int64) -> ContinuousClock.Instant { Self.origin + .milliseconds(time) }

    /// The slots with keys of the simulation that are in ranges of hash slots.
    func slots(in ranges: [Range<Int>]) -> [Int] {
        (0..<settings.keyedSlots).filter { slot in ranges.contains { $0.contains(hashSlots[slot]) } }
    }

    func range(_ slot: Int) -> Range<Int> { hashSlots[slot]..<(hashSlots[slot] + 1) }

    /// The reply to `CLUSTER SLOTS` of a server that knows these owners.
    func report(_ owners: [Int]) -> ClusterSlots {
        if let known = reports.last(where: { $0.owners == owners }) { return known.slots }
        func server(_ node: Int) -> RESPValue {
            .array([.simple(Settings.addresses[node].host), .integer(Int64(Settings.addresses[node].port))])
        }
        var rows: [RESPValue] = []
        var first = 0
        for slot in HashSlot.all where slot == HashSlot.count - 1 || owners[places[slot]] != owners[places[slot + 1]] {
            let owner = owners[places[slot]]
            rows.append(.array([.integer(Int64(first)), .integer(Int64(slot)), server(owner), server(owner ^ 1)]))
            first = slot + 1
        }
        guard let slots = try? ClusterSlots(.array(rows), asked: "") else {
            preconditionFailure("the model's topology is invalid")
        }
        reports.append((owners, slots))
        return slots
    }

    func tick(_ gateway: Gateway, _ process: Int) {
        guard gateway.isUp, gateway.process == process else { return }
        guard now < end + 1_000 || refreshes.indices.contains(where: isAlive) else { return }
        var actions = gateway.topology.tick(now: deadline)
        if mutant == .trustsInDoubt { actions.removeAll { if case .distrust = $0 { true } else { false } } }
        perform(gateway, actions)
        queue.push(.tick(gateway: gateway.number, process: process), at: now + Settings.tick)
    }

    private func perform(_ gateway: Gateway, _ actions: [ClusterTopology.Action]) {
        for action in actions {
            switch action {
            case .connect(let server):
                let node = Settings.number(of: server.address)
                gateway.links[node] = Gateway.Link(state: .connecting, number: gateway.links[node].number + 1)
                queue.push(
                    .connect(gateway: gateway.number, node: node, link: gateway.links[node].number),
                    at: now + random.between(1, 20))
            case .disconnect(let address): closeLink(gateway, Settings.number(of: address))
            case .ask(let address):
                send(.topology, slot: 0, to: Settings.number(of: address), from: gateway, owner: .topology)
            case .askSeed(let address):
                queue.push(
                    .askSeed(
                        gateway: gateway.number, process: gateway.process, node: Settings.number(of: address)),
                    at: now + random.between(1, 20))
            case .distrust(let ranges):
                if mutant != .trustsLostPartition { gateway.cache.partitionsChanged(ranges, areTrusted: false) }
            case .route(let ranges, let destination):
                for slot in slots(in: ranges) { gateway.routes[slot] = destination }
            case .restore(let number, let ranges, let address):
                restore(gateway, number, ranges, at: Settings.number(of: address))
            case .trust(let ranges, let afterOutage): trust(gateway, ranges, afterOutage)
            }
        }
    }

    private func trust(_ gateway: Gateway, _ ranges: [Range<Int>], _ afterOutage: Bool) {
        if afterOutage, mutant != .graceForgotten {
            coverage.count(.grace)
            gateway.grace.begin(ranges, now: instant)
        }
        var ranges = ranges
        let keyed = slots(in: ranges)
        if mutant == .trustsLostPartition || mutant == .trustsInDoubt {
            ranges = keyed.map(range).filter { gateway.cache.trust.word($0.lowerBound) % 2 == 0 }
        }
        gateway.cache.partitionsChanged(ranges, areTrusted: true)
        for slot in keyed {
            coverage.count(.trusted)
            gateway.trustedAt[slot] = now
            checkTrusting(slot, gateway)
            note("g\(gateway.number) trusts slot \(slot)\(afterOutage ? " after an outage" : "")")
        }
    }

    func connect(_ gateway: Gateway, _ node: Int, _ link: Int) {
        guard gateway.isUp, gateway.links[node].number == link else { return }
        let server = nodes[node]
        guard server.isUp, server.frozenUntil <= now, cutUntil(gateway, server) == 0 else {
            let time = server.isUp ? now + settings.commandTimeout : now + 1
            queue.push(.linkReset(gateway: gateway.number, node: node, link: link), at: time)
            return
        }
        gateway.links[node].state = .ready
        gateway.links[node].lastSent = now
        gateway.links[node].lastReceived = now
        perform(gateway, gateway.topology.linkReady(Settings.addresses[node], now: deadline))
    }

    func dropLink(_ gateway: Gateway, _ node: Int) {
        note("g\(gateway.number) loses its link to n\(node)")
        closeLink(gateway, node)
        perform(gateway, gateway.topology.linkLost(Settings.addresses[node], now: deadline))
    }

    private func closeLink(_ gateway: Gateway, _ node: Int) {
        for call in gateway.links[node].calls { queue.push(.lost(call: call), at: now) }
        gateway.links[node] = Gateway.Link(number: gateway.links[node].number + 1)
        for slot in gateway.routes.indices where gateway.routes[slot] == .link(Settings.addresses[node]) {
            gateway.routes[slot] = .none
        }
    }

    func topologyReceived(_ gateway: Gateway, _ call: Int, _ reply: Reply) {
        guard case .topology(let owners) = reply else { return }
        let address = Settings.addresses[calls[call].node]
        perform(gateway, gateway.topology.answered(address, report(owners), now: deadline))
    }

    /// A question over a connection of its own reaches a server, or does not.
    func askSeed(_ gateway: Gateway, _ process: Int, _ node: Int) {
        let server = nodes[node]
        let isReachable = server.isUp && server.frozenUntil <= now && cutUntil(gateway, server) == 0
        let time = isReachable ? random.between(1, 20) : server.isUp ? settings.commandTimeout : 1
        queue.push(
            .seedReply(gateway: gateway.number, process: process, owners: isReachable ? server.owners : nil),
            at: now + time)
    }

    func seedReplied(_ gateway: Gateway, _ process: Int, _ owners: [Int]?) {
        guard gateway.isUp, gateway.process == process else { return }
        if let owners {
            perform(gateway, gateway.topology.seedAnswered(report(owners), now: deadline))
        } else {
            perform(gateway, gateway.topology.seedNotAnswered(now: deadline))
        }
    }

    /// A server redirected a command.
    func redirected(_ gateway: Gateway, _ slot: Int, by node: Int, to other: Int, isAsking: Bool) {
        let (sender, target) = (Settings.addresses[node], Settings.addresses[other])
        perform(
            gateway,
            isAsking
                ? gateway.topology.asking(hashSlots[slot], to: target, by: sender, now: deadline)
                : gateway.topology.moved(hashSlots[slot], to: target, by: sender, now: deadline))
    }

    func restored(_ gateway: Gateway, _ process: Int, _ number: UInt32) {
        guard gateway.isUp, gateway.process == process else { return }
        perform(gateway, gateway.topology.restored(number, now: deadline))
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
            gateway.cache.recordChanged(Names.key(slot).id)
        } else if slot < self.slot(mark: 0) {
            gateway.cache.cutoffChanged(in: hashSlots[slot])
        }
    }
}
