import CloakroomCore
import NIOCore

extension ClusterTopology {
    /// Records which servers' slots a primary confirms.
    /// - Parameter differing: The slots for which it reported another owner before its report was adopted.
    mutating func confirm(by id: NodeID, except differing: [Int]) {
        guard let view = members[id]?.view else { return }
        var denied: Set<NodeID> = []
        for slot in differing
        where view.owners[slot] != slots[slot].owner && slots[slot].changedAt < view.askedAt {
            denied.insert(slots[slot].owner)
        }
        for (confirmed, member) in members
        where member.slots > 0 && !denied.contains(confirmed) && member.readyAt <= view.askedAt {
            members[confirmed]?.confirmations[id] = view.askedAt
        }
    }

    /// Whether a majority of the primaries has confirmed the slots of a server recently.
    ///
    /// All servers are checked several times a second. They are counted only when the time of an earlier count is over,
    /// or if they may have become a majority: otherwise the cost would be the cube of their number.
    mutating func isConfirmed(_ id: NodeID, _ now: NIODeadline) -> Bool {
        guard let member = members[id] else { return false }
        if let time = member.adoptedAt, now - time < Self.trustPeriod { return true }
        if member.confirmed.by == votersNumber, now < member.confirmed.until { return true }
        guard 2 * member.confirmations.count > voters.count else { return false }
        countedMajorities += 1
        let recent = member.confirmations.filter { now - $0.value < Self.trustPeriod && voters.contains($0.key) }
        members[id]?.confirmations = recent
        guard 2 * recent.count > voters.count else { return false }
        // The oldest confirmation of those that are just a majority.
        let oldest = recent.values.sorted(by: >)[voters.count / 2]
        members[id]?.confirmed = (oldest + Self.trustPeriod, votersNumber)
        return true
    }

    /// Compares the trust in a server with its confirmations.
    mutating func checkTrust(of id: NodeID, _ now: NIODeadline) {
        guard let member = members[id], member.slots > 0, member.link == .ready else { return }
        let isConfirmed = isConfirmed(id, now)
        if isConfirmed, !member.isTrusted || member.isIncomplete {
            serve([HashSlot.all], of: id, now)
        } else if !isConfirmed, member.isTrusted || member.isHeld && member.readyAt + Self.holdPeriod <= now {
            stopUsing(id, .inDoubt)
        }
    }

    /// Stops the use of a server's slots.
    mutating func stopUsing(_ id: NodeID, _ destination: Destination) {
        let owned = ranges { $0.owner == id }
        distrust(owned)
        for slot in owned.joined() {
            slots[slot].isServed = false
            slots[slot].restoration = 0
        }
        members[id]?.isTrusted = false
        members[id]?.isHeld = false
        actions.append(.route(owned, destination))
    }

    mutating func distrust(_ changed: [Range<Int>]) {
        var lost = SlotRanges()
        for slot in changed.joined() where slots[slot].isTrusted {
            slots[slot].isTrusted = false
            lost.append(slot)
        }
        if !lost.ranges.isEmpty { actions.append(.distrust(lost.ranges)) }
    }

    /// Reports slots as trusted, if they are.
    mutating func trustIfConfirmed(_ range: Range<Int>, _ now: NIODeadline) {
        var (plain, recovered) = (SlotRanges(), SlotRanges())
        var confirmed: (id: NodeID, isTrusted: Bool) = (Self.noNode, false)
        for slot in range where slots[slot].isServed && !slots[slot].isTrusted && moving[slot] == nil {
            let owner = slots[slot].owner
            if confirmed.id != owner {
                confirmed = (owner, members[owner]?.link == .ready && isConfirmed(owner, now))
            }
            guard confirmed.isTrusted else {
                members[owner]?.isIncomplete = true
                continue
            }
            slots[slot].isTrusted = true
            if slots[slot].hadOutage { recovered.append(slot) } else { plain.append(slot) }
            slots[slot].hadOutage = false
        }
        if !plain.ranges.isEmpty { actions.append(.trust(plain.ranges, afterOutage: false)) }
        if !recovered.ranges.isEmpty { actions.append(.trust(recovered.ranges, afterOutage: true)) }
    }
}
