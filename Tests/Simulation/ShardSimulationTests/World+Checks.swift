import CloakroomCore

@testable import CloakroomSessions

/// The checks of the invariants, and what they exclude.
///
/// Asynchronous replication can lose writes that were acknowledged. A write is covered if a replica has confirmed it, or
/// if a gateway that has acknowledged it lives: that gateway writes it again. A restart of a primary with an older file
/// loses confirmed writes too, so that only living gateways cover them. What is not covered is excluded: a gateway and a
/// primary that fail together before the write was replicated.
extension World {
    /// How long a gateway that can reach the majority needs after a server was replaced, until it has written its
    /// journal again: a question for the topology (1.25 s), a command without reply, an attempt to connect to a server
    /// that was down for at most the node timeout (1.6 s), and two more repetitions (1 s and a command each).
    var assertionTime: Int64 { 4_900 + 3 * settings.commandTimeout }

    /// The end of the time in which a session may still be served after the acknowledgement of its sign-out; `nil` if
    /// the end is not covered.
    ///
    /// Without a failure that loses the write: `acknowledgement + topologyTrust`. Otherwise `topologyTrust` and the
    /// time of the repetition count from the promotion, from the restart, or from the time at which the gateways that
    /// cover the write can reach the majority, if that is later. A promotion loses writes that are not older than the
    /// delay of replication, and it follows the failure within the node timeout and the time of an election, so that
    /// the bound after the acknowledgement is: `delay of replication + node timeout + election + repetition +
    /// topologyTrust`.
    private func bound(_ session: Int) -> Int64? {
        let truth = truths[session]
        guard let endedAt = truth.endedAt else { return nil }
        let slots = [session, slot(account: truth.account)]
        var from = endedAt
        var isLost = false
        for slot in slots {
            if lostAt[slot] > endedAt { (from, isLost) = (max(from, lostAt[slot]), true) }
            if !truth.isEndConfirmed, promotedAt[slot] > endedAt {
                (from, isLost) = (max(from, promotedAt[slot]), true)
            }
        }
        guard isLost else { return endedAt + Settings.topologyTrust + Settings.tick + 20 }
        guard let reachable = reachableSince(truth.endHolders),
            reachable + assertionTime <= endedAt + Settings.journalLife
        else { return nil }
        return max(from, reachable) + assertionTime + Settings.topologyTrust + Settings.tick
    }

    /// Since when one of these processes lives and can reach the majority; `nil` if none does.
    func reachableSince(_ holders: [Int]) -> Int64? {
        holders.filter { processes[$0].isAlive }.map { gateways[processes[$0].gateway].undisturbedSince }
            .filter { $0 <= now }.min()
    }

    /// A request is about to be forwarded.
    func checkServing(_ index: Int) {
        let request = requests[index]
        let truth = truths[request.session]
        guard let endedAt = truth.endedAt, request.startedAt > endedAt else { return }
        // A gateway that is cut off for longer than its journal's life forgets what it has acknowledged.
        let gateway = gateways[request.gateway]
        let isKnown = gateway.undisturbedSince + assertionTime <= endedAt + Settings.journalLife
        if isKnown, truth.endHolders.contains(gateway.process) {
            violate(.ownEndsHold, "g\(request.gateway) serves s\(request.session), whose end it has acknowledged")
        }
        guard let bound = bound(request.session), request.startedAt > bound else { return }
        // A process that was suspended uses its cache until the next tick.
        guard request.startedAt > gateway.pausedUntil + Settings.tick else { return }
        violate(.revokedEnds, "g\(request.gateway) serves s\(request.session), which ended at \(endedAt)")
    }

    /// A client gets a 401.
    func checkUnauthorized(_ index: Int) {
        let request = requests[index]
        let truth = truths[request.session]
        guard !truth.mayHaveEnded, !upstream.isRevoked[request.session] else { return }
        guard !isExcused(request.session, at: gateways[request.gateway]) else { return }
        violate(.staysSignedIn, "request \(index) at g\(request.gateway) gets a 401, and s\(request.session) is active")
    }

    /// Whether the record may be missing, and the gateway may take it for ended.
    private func isExcused(_ session: Int, at gateway: Gateway) -> Bool {
        let truth = truths[session]
        let signedInAt = truth.signedInAt ?? now
        var lost = lostAt[session] > signedInAt ? lostAt[session] : -1
        if !truth.isInsertConfirmed, promotedAt[session] > signedInAt { lost = max(lost, promotedAt[session]) }
        guard lost >= 0 else { return false }
        // The gateways that cover the record could not write it again within the grace period.
        guard let reachable = reachableSince(truth.recordHolders), reachable <= lost else { return true }
        return isFresh(gateway, session)
    }

    /// Whether a process has started after a failure and thus does not know of it.
    func isFresh(_ gateway: Gateway, _ slot: Int) -> Bool {
        gateway.startedAt + 1_000 > failedAt[slot] && now < max(promotedAt[slot], lostAt[slot]) + Settings.grace
    }

    /// A token is spent that another refresh has spent before.
    func checkSpending(_ index: Int, _ pair: Int, _ first: Int) {
        let (late, early) = (refreshes[index], refreshes[first])
        let (spender, holder) = (gateways[late.gateway], gateways[early.gateway])
        // The holder is dead, or could not write the new tokens again in time.
        guard processes[early.process].isAlive, holder.undisturbedSince <= early.startedAt else { return }
        // The holder gave up: it could not save within its retry period.
        guard !early.hasGivenUp else { return }
        // The spender was stopped between its decision and the call, or does not know of the failure.
        guard processes[late.process].isAlive, spender.undisturbedSince <= late.startedAt else { return }
        guard !late.isFresh else { return }
        // The holder does not know of the failure, and overtook a call: the spender could not write its lease again in time.
        let isLeaseLost = spender.trustedAt[late.session] > early.startedAt
        guard !early.isFresh || late.startedAt > early.startedAt || !isLeaseLost else { return }
        violate(
            .spentOnce,
            "f\(index) at g\(late.gateway) spends p\(pair) after f\(first) at g\(early.gateway), which lives")
    }

    /// A gateway trusts the server of a slot, which has its writes: those of other gateways may follow.
    func checkTrusting(_ session: Int, _ gateway: Gateway) {
        let slot = hashSlots[session]
        guard session < settings.allSessions, !gateway.journal.unrepeated.contains(where: { $0.contains(slot) }) else {
            return
        }
        let node = nodes[owners[session]]
        guard gateway.routes[session] == .link(Settings.addresses[node.number]) else { return }
        // Without a record it has ended, or its lease has to wait for another gateway.
        let record = node.data.records[session]
        guard let version = record.session?.version else { return }
        for (index, refresh) in refreshes.enumerated()
        where refresh.process == gateway.process && refresh.session == session {
            if let lease = refresh.lease, !refresh.isFinished, record.fence < lease.fence,
                now < lease.at + min(settings.limits.lease.wholeMilliseconds, Settings.journalLife)
            {
                violate(.writtenAgain, "g\(gateway.number) trusts n\(node.number) without the lease of f\(index)")
            }
            if let save = refresh.journaled, save.replacement != gateway.journal.replacement(of: slot),
                version < save.version, now < save.at + Settings.journalLife
            {
                violate(.writtenAgain, "g\(gateway.number) trusts n\(node.number) without the tokens of f\(index)")
            }
        }
    }

    /// The end of a run: no events are left.
    func checkEnd() {
        for index in refreshes.indices where isAlive(index) { violate(.progress, "f\(index) never ended") }
        for index in requests.indices where requests[index].isProbe {
            let request = requests[index]
            switch request.state {
            case .served, .unauthorized: break
            case .going, .unavailable, .lost:
                violate(.progress, "s\(request.session) at g\(request.gateway) is \(request.state) without faults")
            }
        }
        if let migration { violate(.progress, "slot \(migration.slot) never arrives") }
    }
}
