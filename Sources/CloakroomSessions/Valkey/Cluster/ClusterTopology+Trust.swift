import CloakroomCore
import NIOCore

extension ClusterTopology {
    /// Records which servers' slots a primary confirms.
    mutating func confirm(by id: NodeID) {
        guard let view = members[id]?.view else { return }
        var denied: Set<NodeID> = []
        for slot in HashSlot.all
        where view.owners[slot] != slots[slot].owner && slots[slot].changedAt < view.askedAt {
            denied.insert(slots[slot].owner)
        }
        for (confirmed, member) in members
        where member.slots > 0 && !denied.contains(confirmed) && member.readyAt <= view.askedAt {
            members[confirmed]?.confirmations[id] = view.askedAt
        }
    }

    /// Whether a majority of the primaries has confirmed the slots of a server recently.
    func isConfirmed(_ id: NodeID, _ now: NIODeadline) -> Bool {
        guard let member = members[id] else { return false }
        func isRecent(_ time: NIODeadline?) -> Bool { time.map { now - $0 < Self.trustPeriod } ?? false }
        if isRecent(member.adoptedAt) { return true }
        return 2 * voters.count { isRecent(member.confirmations[$0]) } > voters.count
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
