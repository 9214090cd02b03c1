import CloakroomCore
import Synchronization

/// Writes that a server does not accept when it replaces another one, as while its replicas are not connected yet
/// (`NOREPLICAS`), or while the cluster has no majority (`CLUSTERDOWN`).
///
/// Its slots are served meanwhile, because it can be read. No session is accepted that this process has ended: the
/// journal knows these sessions, cutoffs and marks, see ``WriteJournal/end(of:since:)``, and does not drop them for their
/// age as long as a server may lack them. A record that is missing may be one of those that are repeated, so the grace
/// period lasts until they are written, or are too old to be written. Each server has its own repetitions, one at a time:
/// one that is slow delays those of no other.
extension WriteReassertion {
    /// The delays between two repetitions at a server, and between two reports of missing records: these do not wait for
    /// repetitions, because one may take longer than the grace period, ``PostOutageGracePeriod/length``.
    private static let delays = ExponentialBackoff(initial: .milliseconds(100), maximum: .seconds(1), jitter: 0.5)

    /// Repeats what was not accepted until it is, or until the task is cancelled.
    func repeatUntilAccepted(over client: ValkeyClient, _ changes: any RecordChangeDelegate) async {
        let busy = BusyLinks()
        await withDiscardingTaskGroup { group in
            for await _ in journal.shortfalls() {
                var checks = 0
                while !journal.unrepeated.isEmpty {
                    checks += 1
                    guard await Self.pause(after: checks) else { return }
                    for (link, slots) in Self.servers(of: journal.unrepeated, client) {
                        if journal.hasRecords(in: slots.ranges) { changes.partitionsLackWrites(slots.ranges) }
                        guard busy.insert(link) else { continue }
                        group.addTask {
                            await repeatUntilAccepted(at: link, over: client, changes)
                            busy.remove(link)
                        }
                    }
                }
                if checks > 0 { log.completed() }
            }
        }
    }

    /// - Returns: `false` if the task is cancelled.
    private static func pause(after count: Int) async -> Bool {
        var generator = SystemRandomNumberGenerator()
        let delay = delays.delay(afterFailures: count, random: generator.next())
        return (try? await Task.sleep(for: delay)) != nil
    }

    /// The links of slots that have one, and the slots of each.
    private static func servers(
        of slots: [Range<Int>], _ client: ValkeyClient
    ) -> some Collection<(link: ValkeyLink, slots: SlotRanges)> {
        var servers: [ObjectIdentifier: (link: ValkeyLink, slots: SlotRanges)] = [:]
        for slot in slots.joined() {
            guard let link = client.link(of: UInt16(slot)) else { continue }
            servers[ObjectIdentifier(link), default: (link, SlotRanges())].slots.append(slot)
        }
        return servers.values
    }

    /// Repeats the writes of a server until it lacks none, or does not have their slots any more.
    private func repeatUntilAccepted(
        at link: ValkeyLink, over client: ValkeyClient, _ changes: any RecordChangeDelegate
    ) async {
        func own(_ slots: [Range<Int>]) -> [Range<Int>] {
            var own = SlotRanges()
            for slot in slots.joined() where client.link(of: UInt16(slot)) === link { own.append(slot) }
            return own.ranges
        }
        var failures = 0
        repeat {
            // Not those of other servers: their repetitions would not count any more.
            let slots = own(journal.unrepeated)
            guard !slots.isEmpty else { return }
            // Before the links are determined again: slots that get another server after this are repeated there, and
            // keep that result.
            let number = journal.willRepeat(slots)
            await repeatAgain(own(slots), number, at: link, changes)
            failures += 1
        } while await Self.pause(after: failures)
    }

    /// Repeats the writes of slots once. Redirections are not followed: a cutoff must not be created at a server that is
    /// receiving its slot.
    private func repeatAgain(
        _ slots: [Range<Int>], _ number: UInt32, at link: ValkeyLink, _ changes: any RecordChangeDelegate
    ) async {
        let pass = await attempt(slots, number, until: nil) { await link.send($0) }
        // An own write is not reported by the server.
        for id in pass.changed { changes.recordChanged(id) }
        log.reasserted(pass.counts, unwritten: 0)
    }
}

/// The links at which writes are being repeated.
private final class BusyLinks: Sendable {
    private let links = Mutex<[ObjectIdentifier: ValkeyLink]>([:])

    /// - Returns: `false` if the link is one of them already.
    func insert(_ link: ValkeyLink) -> Bool {
        links.withLock { $0.updateValue(link, forKey: ObjectIdentifier(link)) } == nil
    }

    func remove(_ link: ValkeyLink) {
        links.withLock { $0[ObjectIdentifier(link)] = nil }
    }
}
