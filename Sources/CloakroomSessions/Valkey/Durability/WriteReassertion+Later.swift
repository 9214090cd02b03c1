import CloakroomCore

/// Writes that a server does not accept when it replaces another one, as while its replicas are not connected yet
/// (`NOREPLICAS`), or while the cluster has no majority (`CLUSTERDOWN`).
///
/// Its slots are served meanwhile, because it can be read. No session is accepted that this process has ended: the
/// journal knows these sessions, cutoffs and marks, see ``WriteJournal/end(of:since:)``, and does not drop them for their
/// age as long as a server may lack them. A record that is missing may be one of those that are repeated, so the grace
/// period lasts until they are written, or are too old to be written.
extension WriteReassertion {
    private static let delays = ExponentialBackoff(initial: .milliseconds(100), maximum: .seconds(1), jitter: 0.5)

    /// Repeats what was not accepted until it is, or until the task is cancelled.
    func repeatUntilAccepted(over client: ValkeyClient, _ changes: any RecordChangeDelegate) async {
        var generator = SystemRandomNumberGenerator()
        for await _ in journal.shortfalls() {
            var failures = 0
            while case let slots = journal.unrepeated, !slots.isEmpty {
                failures += 1
                let delay = Self.delays.delay(afterFailures: failures, random: generator.next())
                guard (try? await Task.sleep(for: delay)) != nil else { return }
                await repeatAgain(slots, over: client, changes)
            }
            if failures > 0 { log.completed() }
        }
    }

    /// Repeats the writes of slots once, at the servers that have a link.
    private func repeatAgain(
        _ slots: [Range<Int>], over client: ValkeyClient, _ changes: any RecordChangeDelegate
    ) async {
        // Before the links are determined: slots that get another server after this are repeated there, and keep that
        // result. Redirections are not followed: a cutoff must not be created at a server that is receiving its slot.
        let number = journal.willRepeat(slots)
        var parts: [ObjectIdentifier: (link: ValkeyLink, slots: SlotRanges)] = [:]
        for slot in slots.joined() {
            guard let link = client.link(of: UInt16(slot)) else { continue }
            parts[ObjectIdentifier(link), default: (link, SlotRanges())].slots.append(slot)
        }
        await withDiscardingTaskGroup { group in
            for (link, slots) in parts.values {
                group.addTask { await repeatAgain(slots.ranges, number, at: link, changes) }
            }
        }
    }

    private func repeatAgain(
        _ slots: [Range<Int>], _ number: UInt32, at link: ValkeyLink, _ changes: any RecordChangeDelegate
    ) async {
        if journal.hasRecords(in: slots) { changes.partitionsLackWrites(slots) }
        let pass = await attempt(slots, number, until: nil) { await link.send($0) }
        // An own write is not reported by the server.
        for id in pass.changed { changes.recordChanged(id) }
        log.reasserted(pass.counts, unwritten: pass.unwritten.isEmpty ? pass.rejected : 0, reason: pass.reason)
    }
}
