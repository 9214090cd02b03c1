import CloakroomCore
import NIOCore

extension ClusterTopology {
    /// Adopts what a primary reports and a majority confirms, or what it reports of its own slots.
    /// - Parameter differing: The slots for which it reports another owner.
    mutating func adopt(_ differing: [Int], reportedBy id: NodeID, _ report: ClusterSlots, _ now: NIODeadline) {
        guard let view = members[id]?.view else { return }
        var failovers: [(Range<Int>, NodeID)] = []
        var confirmedAt = now
        var disclaimed = SlotRanges()
        var abandoned = SlotRanges()
        var moves: [(Range<Int>, NodeID)] = []
        var views: [View]?
        for slot in differing where slots[slot].changedAt < view.askedAt {
            let (reported, known) = (view.owners[slot], slots[slot].owner)
            if reported == Self.noNode {
                if known == id { abandoned.append(slot) }
            } else if known == id {
                if denies(reported, slot, now) {
                    // The owner disclaims the slot, and the other one does not know of it yet.
                    disclaimed.append(slot)
                    moving[slot] = now + Self.movePeriod
                    askSoon(reported, now)
                } else {
                    Self.append(slot, reported, to: &moves)
                }
            } else if reported == id, let owner = members[known]?.view, slots[slot].changedAt < owner.askedAt,
                owner.owners[slot] == id
            {
                Self.append(slot, reported, to: &moves)
            } else {
                // Fetched once: many slots may differ.
                let known = views ?? recentViews(now)
                views = known
                guard let time = confirmation(of: slot, owner: reported, by: known, now) else { continue }
                confirmedAt = min(confirmedAt, time)
                Self.append(slot, reported, to: &failovers)
            }
        }
        distrust(disclaimed.ranges)
        abandon(abandoned.ranges, by: id, now)
        guard !moves.isEmpty || !failovers.isEmpty else { return }
        let receivers = Set((moves + failovers).map(\.1))
        for primary in report.primaries where ids[primary.address].map(receivers.contains) == true {
            _ = memberIfRoom(for: primary, limit: Self.maximumMembers, now)
        }
        change(moves.filter { members[$0.1] != nil }, isFailover: false, since: view.askedAt, now)
        change(failovers.filter { members[$0.1] != nil }, isFailover: true, since: confirmedAt, now)
        // A primary that was replaced before it had a slot here has no vote.
        let named = Set(report.primaries.compactMap { ids[$0.address] })
        voters = voters.filter { named.contains($0) || (members[$0]?.slots ?? 0) > 0 }
    }

    /// Takes slots from a server that has none for them, nor knows of one. Its other slots are still used: otherwise the
    /// other primaries, which do not report these slots as its own any more, would not confirm it.
    private mutating func abandon(_ ranges: [Range<Int>], by id: NodeID, _ now: NIODeadline) {
        guard !ranges.isEmpty else { return }
        distrust(ranges)
        for slot in ranges.joined() {
            slots[slot] = Slot(changedAt: now, hadOutage: true, needsRestoring: true)
            moving[slot] = nil
            members[id]?.slots -= 1
        }
        if members[id]?.slots == 0 { voters.remove(id) }
        actions.append(.route(ranges, .none))
    }

    /// Whether a server has reported recently that it does not have a slot.
    func denies(_ id: NodeID, _ slot: Int, _ now: NIODeadline) -> Bool {
        guard let view = members[id]?.view, now - view.askedAt <= Self.trustPeriod else { return false }
        return view.owners[slot] != id
    }

    /// What the primaries have reported recently.
    private func recentViews(_ now: NIODeadline) -> [View] {
        voters.compactMap { members[$0]?.view }.filter { now - $0.askedAt <= Self.trustPeriod }
    }

    /// Since when a majority of the primaries reports an owner, and the owner does not deny it.
    private func confirmation(
        of slot: Int, owner: NodeID, by views: [View], _ now: NIODeadline
    ) -> NIODeadline? {
        guard 2 * views.count > voters.count, !denies(owner, slot, now) else { return nil }
        let changedAt = slots[slot].changedAt
        var (count, since) = (0, now)
        for view in views where changedAt < view.askedAt && view.owners[slot] == owner {
            count += 1
            since = min(since, view.askedAt)
        }
        return 2 * count > voters.count ? since : nil
    }

    /// Gives slots to other servers.
    /// - Parameter since: When the change was confirmed.
    mutating func change(
        _ changes: [(Range<Int>, NodeID)], isFailover: Bool, since: NIODeadline, _ now: NIODeadline
    ) {
        guard !changes.isEmpty else { return }
        distrust(changes.map(\.0))
        for (range, owner) in changes {
            // One redirected slot is no confirmation of the other slots of a server.
            if isFailover || members[owner]?.slots == 0 {
                let adoptedAt = members[owner]?.adoptedAt ?? since
                members[owner]?.adoptedAt = max(adoptedAt, since)
            }
            // A promoted replica was no primary before. Its slots may lack the last writes.
            let isPlain = !isFailover && isEstablished(owner, now)
            for slot in range {
                let previous = slots[slot].owner
                if previous != Self.noNode {
                    members[previous]?.slots -= 1
                    // A primary that has given away its last slot hands over its vote. One that never had a slot here
                    // keeps it.
                    if members[previous]?.slots == 0, voters.remove(previous) != nil { voters.insert(owner) }
                    if !isPlain {
                        slots[slot].needsRestoring = true
                        slots[slot].hadOutage = true
                    }
                    if members[owner]?.slots == 0 { members[owner]?.primarySince = now }
                } else if hadFailure {
                    slots[slot].hadOutage = true
                }
                slots[slot].owner = owner
                slots[slot].changedAt = now
                slots[slot].isServed = false
                slots[slot].restoration = 0
                moving[slot] = nil
                members[owner]?.slots += 1
                members[owner]?.isExpected = false
            }
            if isFailover, !voters.contains(owner) { voters.insert(owner) }
        }
        for owner in Set(changes.map(\.1)).sorted() {
            guard let member = members[owner] else { continue }
            let given = changes.filter { $0.1 == owner }.map(\.0)
            actions.append(.route(given, .wait))
            switch member.link {
            case .ready: serve(given, of: owner, now)
            case .connecting: break
            case .idle: connect(owner)
            }
        }
    }

    /// Gives a vote to servers that a majority of the primaries names as the owner of a slot. A redirection alone gives
    /// none: one server could redirect to any number of others, which would be the majority then.
    mutating func admitVoters(_ now: NIODeadline) {
        let candidates = members.keys.filter { members[$0].map({ $0.slots > 0 }) == true && !voters.contains($0) }
        guard !candidates.isEmpty else { return }
        let views = recentViews(now)
        for id in candidates.sorted() {
            guard let slot = slots.firstIndex(where: { $0.owner == id }),
                confirmation(of: slot, owner: id, by: views, now) != nil
            else { continue }
            voters.insert(id)
        }
    }

    func isEstablished(_ id: NodeID, _ now: NIODeadline) -> Bool {
        guard let member = members[id], member.slots > 0 else { return false }
        return member.primarySince + Self.establishmentPeriod <= now
    }

    /// Sends the commands for a server's slots to its link, which is ready, after restoring them where necessary. All
    /// slots that were left out before are included.
    ///
    /// A server has one restoration at a time: slots that are to be restored meanwhile wait, and are restored together.
    mutating func serve(_ due: [Range<Int>], of id: NodeID, _ now: NIODeadline) {
        guard let member = members[id], member.slots > 0, member.link == .ready else { return }
        guard isConfirmed(id, now) else {
            members[id]?.isIncomplete = true
            return
        }
        let ranges = member.isTrusted && !member.isIncomplete ? due : [HashSlot.all]
        members[id]?.isTrusted = true
        members[id]?.isIncomplete = false
        members[id]?.isHeld = false
        var (fresh, stale, late) = (SlotRanges(), SlotRanges(), SlotRanges())
        for slot in ranges.joined() where slots[slot].owner == id && slots[slot].restoration == 0 {
            if slots[slot].isServed {
                if !slots[slot].isTrusted { late.append(slot) }
            } else if slots[slot].needsRestoring {
                stale.append(slot)
            } else {
                slots[slot].isServed = true
                fresh.append(slot)
            }
        }
        if !stale.ranges.isEmpty {
            actions.append(.route(stale.ranges, .wait))
            restore(stale.ranges, at: id)
        }
        if !fresh.ranges.isEmpty {
            actions.append(.route(fresh.ranges, .link(member.node.address)))
            for range in fresh.ranges { trustIfConfirmed(range, now) }
        }
        for range in late.ranges { trustIfConfirmed(range, now) }
    }

    /// Begins the restoration of slots, or leaves them until the present one is complete.
    private mutating func restore(_ stale: [Range<Int>], at id: NodeID) {
        guard let member = members[id] else { return }
        guard member.restoration == 0 else {
            members[id]?.hasWaitingSlots = true
            return
        }
        lastRestoration = lastRestoration &+ 1 == 0 ? 1 : lastRestoration &+ 1
        members[id]?.restoration = lastRestoration
        for slot in stale.joined() { slots[slot].restoration = lastRestoration }
        actions.append(.restore(lastRestoration, stale, member.node.address))
    }

    static func append(_ slot: Int, _ owner: NodeID, to changes: inout [(Range<Int>, NodeID)]) {
        if let last = changes.last, last.1 == owner, last.0.upperBound == slot {
            changes[changes.count - 1].0 = last.0.lowerBound..<(slot + 1)
        } else {
            changes.append((slot..<(slot + 1), owner))
        }
    }

    func ranges(where matches: (Slot) -> Bool) -> [Range<Int>] {
        var ranges = SlotRanges()
        for slot in HashSlot.all where matches(slots[slot]) { ranges.append(slot) }
        return ranges.ranges
    }
}
